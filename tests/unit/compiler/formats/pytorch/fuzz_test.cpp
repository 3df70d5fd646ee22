// Real files, damaged at random with a fixed seed: whatever is read must be sane enough to be printed and written
// again, and whatever is refused has a reason. Worth most under the address and undefined-behaviour sanitizers.
#include <gtest/gtest.h>

#include <random>

#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

constexpr int kRounds = 1500;  // For each sample.

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::string Apply(std::string bytes) {
    const std::size_t changes = 1 + Below(4);
    for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) ApplyOnce(bytes);
    return bytes;
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  void ApplyOnce(std::string& bytes) {
    constexpr std::string_view kCodes =
        "().012NKMJGXUBC]}tuseaRbQhjqrcld\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8f\x90\x91\x92\x93\x94\x95\x96\xff";
    const std::size_t at = Below(bytes.size());
    switch (Below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << Below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        bytes[at] = kCodes[Below(kCodes.size())];
        break;
      case 3:
        bytes.erase(at, 1 + Below(8));
        break;
      case 4:
        bytes.insert(at, bytes.substr(Below(bytes.size()), 1 + Below(16)));
        break;
      default:
        bytes.insert(at, 1, kCodes[Below(kCodes.size())]);
    }
  }

  std::mt19937 random_;
};

// Gives whether it was read.
bool ReadDamagedPickle(const std::string& pickle) {
  auto result = ReadPickle(pickle);
  if (!result) {
    EXPECT_FALSE(TakeFailure(result.takeError()).message.empty());
    return false;
  }
  const std::string printed = Print(*result->root);
  auto again = ReadPickle(WritePickle(*result->root));
  if (!again) {
    ADD_FAILURE() << TakeFailure(again.takeError()).message;
    return true;
  }
  EXPECT_EQ(Print(*again->root), printed);
  return true;
}

TEST(Fuzz, DamagedPickles) {
  int read = 0;
  unsigned seed = 1;
  for (const std::string_view name :
       {"dtypes.pt", "views.pt", "parameters.pt", "objects.pt", "deepspeed.pt", "sparse.pt"}) {
    const std::string pickle = name == "sparse.pt" ? Sample("plain4.pkl") : SamplePickle(name);
    Damage damage(seed++);
    for (int round = 0; round < kRounds; ++round) read += ReadDamagedPickle(damage.Apply(pickle)) ? 1 : 0;
  }
  EXPECT_GT(read, kRounds / 2);  // Else the damage is too coarse to say anything about what is read.
}

TEST(Fuzz, DamagedArchives) {
  unsigned seed = 100;
  for (const std::string_view name : {"dtypes.pt", "views.pt", "objects.pt"}) {
    const std::string bytes = Sample(name);
    Damage damage(seed++);
    for (int round = 0; round < kRounds; ++round) {
      const MemoryFile file(damage.Apply(bytes));
      auto archive = ReadArchive(file);
      if (!archive) {
        EXPECT_FALSE(TakeFailure(archive.takeError()).message.empty());
        continue;
      }
      for (const auto& [key, extent] : archive->storages) {
        EXPECT_LE(extent.data.offset + extent.data.bytes, file.bytes()) << key;
      }
    }
  }
}

}  // namespace
}  // namespace ucp::pytorch
