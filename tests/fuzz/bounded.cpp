// bounded RUNS SEED…: calls a target with each seed file and then RUNS times with damaged ones, always the same.
//
// Stands in for libFuzzer where a test has seconds and no clang: it does not look at what code an input reaches.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

std::vector<std::string> ReadAll(const std::vector<std::string>& places) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& place : places) {
    if (!std::filesystem::is_directory(place)) {
      paths.emplace_back(place);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Damage {
 public:
  explicit Damage(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string Make() {
    std::string bytes = seeds_[Below(seeds_.size())];
    for (std::size_t changes = 1 + Below(4); changes > 0; --changes) Change(bytes);
    return bytes;
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  void Change(std::string& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = Below(bytes.size());
    switch (Below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << Below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        bytes.erase(at, 1 + Below(16));
        break;
      case 3:
        bytes.insert(at, bytes.substr(Below(bytes.size()), 1 + Below(32)));
        break;
      case 4:
        bytes.resize(at);
        break;
      default: {  // A piece of another seed.
        const std::string& other = seeds_[Below(seeds_.size())];
        if (!other.empty()) bytes.insert(at, other.substr(Below(other.size()), 1 + Below(64)));
      }
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_{1};
};

void Call(const std::string& bytes) {
  // Exactly as large as the input, so that a sanitizer sees what reads behind it.
  const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: {} RUNS SEED…\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> seeds = ReadAll({argv + 2, argv + argc});
  if (seeds.empty()) {
    fmt::print(stderr, "no seeds\n");
    return 2;
  }
  for (const std::string& seed : seeds) Call(seed);
  Damage damage(seeds);
  const int runs = std::atoi(argv[1]);
  for (int i = 0; i < runs; ++i) Call(damage.Make());
  fmt::print("{} seeds, {} executions\n", seeds.size(), seeds.size() + static_cast<std::size_t>(runs));
  return 0;
}
