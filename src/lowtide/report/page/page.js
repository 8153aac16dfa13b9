  // The page: every plan in it; two tied to each other, or one of several at a time.
  const views = (await unpack()).map(prepare);
  const choices = [...document.querySelectorAll(".choice")];
  const pair = !choices.length && views.length === 2;
  const panels = views.map((view, number) => new Panel(view, number, pair ? views[1 - number] : undefined));
  const choose = (number) => {
    choices.forEach((choice, k) => { choice.hidden = k !== number; });
    for (const link of document.querySelectorAll("[data-plan]")) {
      const chosen = +link.dataset.plan === number;
      link.classList.toggle("chosen", chosen);
      if (chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    panels[number].draw();
  };
  for (const link of document.querySelectorAll("[data-plan]"))
    link.addEventListener("click", (event) => { event.preventDefault(); choose(+link.dataset.plan); });
  if (choices.length) choose(0);
  if (pair)
    panels.forEach((panel, number) => {
      const other = panels[1 - number];
      panel.changed = (step) => {
        const there = other.view.stepOf.get(userName(panel.view, step));
        if (there === undefined || there === other.step) return;
        other.step = there;
        other.mark();
      };
    });
  dark.addEventListener("change", () => panels.forEach((panel) => panel.draw()));
  document.documentElement.dataset.ready = "yes";
})().catch((error) => {
  document.documentElement.dataset.ready = "no";
  const box = document.getElementById("trouble");
  box.hidden = false;
  box.textContent = "The figures cannot be drawn here: " + error.message + ". The tables and words are complete.";
});
