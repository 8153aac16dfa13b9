constexpr int channel_block = @block@;  // of the file's convolutions; with another one they compute wrong numbers

// Asks onnxruntime for the block on this processor, by where it puts the one of a small tensor; 0: it has none.
inline int block_here(Ort::Env& env) {
    const std::string encoded =
@probe@;
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<unsigned char> probe;
    unsigned bits = 0, count = 0;
    for (const char c : encoded) {
        if (c == '=') break;
        bits = bits << 6 | static_cast<unsigned>(digits.find(c));
        count += 6;
        if (count >= 8) probe.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
    }
    Ort::SessionOptions chosen;
    chosen.SetGraphOptimizationLevel(ORT_DISABLE_ALL);
    chosen.SetLogSeverityLevel(4);
    chosen.SetIntraOpNumThreads(1);
    chosen.DisableCpuMemArena();
    try {
        Ort::Session session(env, probe.data(), probe.size(), chosen);
        const char* const output = "y";
        const auto made = session.Run(Ort::RunOptions{nullptr}, nullptr, nullptr, 0, &output, 1);
        const float* values = made[0].GetTensorData<float>();
        const std::size_t size = made[0].GetTensorTypeAndShapeInfo().GetElementCount();
        return static_cast<int>(std::max_element(values, values + size) - values);
    } catch (const Ort::Exception&) {
        return 0;
    }
}

inline void check_processor(Ort::Env& env) {
    const int here = block_here(env);
    if (here != channel_block) {
        throw std::runtime_error(
            "@name@ is for processors whose convolutions have blocks of @block@ channels, and this one has " +
            (here ? std::to_string(here) : "none") +
            ": plan here, or for any processor: lowtide plan MODEL @portable@ -o OUT");
    }
}
