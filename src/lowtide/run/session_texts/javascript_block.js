const channelBlock = @block@; // of the file's convolutions; with another one they compute wrong numbers

// Asks onnxruntime for the block on this processor, by where it puts the one of a small tensor.
async function checkProcessor(ort) {
  const encoded =
@probe@;
  const probe = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  let block = 0; // there is no such layout
  try {
    const chosen = { graphOptimizationLevel: "disabled", enableCpuMemArena: false, logSeverityLevel: 4 };
    const session = await ort.InferenceSession.create(probe, chosen);
    block = (await session.run({})).y.data.indexOf(1);
    await session.release();
  } catch {
    // a build without it does not know the node
  }
  if (block !== channelBlock) {
    throw new Error(
      @name@ + ` is for processors whose convolutions have blocks of ${channelBlock} channels, and this one has ` +
        `${block || "none"}: plan here, or for any processor: lowtide plan MODEL @portable@ -o OUT`,
    );
  }
}
