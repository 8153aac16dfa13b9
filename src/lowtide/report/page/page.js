  // The page: every plan in it, two of them tied to each other.
  const views = (await unpack()).map(prepare);
  const panels = views.map((view, number) => new Panel(view, number, views.length > 1 ? views[1 - number] : undefined));
  if (panels.length > 1)
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
