// The checkpoints that the conformance suite looks at.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace ucp {

// A checkpoint: a fixture as the engine or Megatron Core wrote it, a sample that PyTorch wrote (dcp), or what a format
// that can write makes of a fixture.
struct Sample {
  std::string format;
  std::string fixture;
  std::string settings = {};  // Of the strategy that writes it.

  bool is_written() const {
    return (format != "deepspeed" && format != "dcp" && format != "megatron") || !settings.empty();
  }
};

inline std::ostream& operator<<(std::ostream& out, const Sample& sample) {
  return out << sample.format << " " << sample.fixture << " " << sample.settings;
}

// Each program of the suite has its own: samples that are written, and all.
std::vector<Sample> WrittenSamples();
std::vector<Sample> AllSamples();

}  // namespace ucp
