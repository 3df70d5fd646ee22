#include "runtime/driver/loaded_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/gpu/bus_speed.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kAlignment = 64;  // Of each record.

std::uint64_t Aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Block {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::span<std::byte> place;
};

// The beginnings of all files that the plan reads, in blocks, into one place after the other.
std::vector<Block> BlocksOf(const Plan& plan, std::span<std::byte> memory) {
  std::vector<Block> blocks;
  for (std::size_t file = 0; file < plan.source.files.size() && !memory.empty(); ++file) {
    for (std::uint64_t begin = 0; begin < plan.source.files[file].bytes && !memory.empty(); begin += kBlockBytes) {
      const std::uint64_t left = std::min<std::uint64_t>(memory.size(), plan.source.files[file].bytes - begin);
      blocks.push_back({file, begin, memory.first(std::min(kBlockBytes, left))});
      memory = memory.subspan(blocks.back().place.size());
    }
  }
  return blocks;
}

}  // namespace

llvm::Expected<LoadedMemory> LoadedMemory::Make(const Plan& plan, const std::vector<RecordId>& records,
                                                const Device* device, const ParallelOptions& parallel) {
  LoadedMemory loaded;
  loaded.device_ = device;
  for (RecordId record : records) loaded.bytes_ += Aligned(plan.target.record(record).bytes);
  std::byte* next = nullptr;
  if (device != nullptr) {
    UCP_ASSIGN_OR_RETURN(loaded.on_device_, DeviceMemory::Make(*device, loaded.bytes_));
    next = loaded.on_device_.bytes().data();
  } else {
    UCP_RETURN_IF_ERROR(loaded.MakeOnHost(parallel));
    next = loaded.memory_.get();
  }
  for (RecordId record : records) {
    const std::uint64_t bytes = plan.target.record(record).bytes;
    loaded.records_.push_back({record, {next, bytes}, device});
    next += Aligned(bytes);
  }
  return loaded;
}

llvm::Error LoadedMemory::MakeOnHost(const ParallelOptions& parallel) {
  memory_.reset(new (std::nothrow) std::byte[bytes_]);
  if (memory_ == nullptr) {
    return Fail(ErrorCode::kMemory, "there is not enough memory: the system does not give the {} that are to be loaded",
                HumanBytes(bytes_));
  }
  const std::span<std::byte> all(memory_.get(), bytes_);
  return ForEachInParallel((all.size() + kBlockBytes - 1) / kBlockBytes, parallel, [&](unsigned, std::uint64_t block) {
    const std::uint64_t begin = block * kBlockBytes;
    std::memset(all.data() + begin, 0, std::min(kBlockBytes, all.size() - begin));
    return llvm::Error::success();
  });
}

llvm::Expected<double> LoadedMemory::Ceiling(const LoadPlan& load, ReadableFileSystem& files,
                                             const ParallelOptions& parallel) {
  if (device_ == nullptr) return ReadingRate(load, files, parallel);
  UCP_ASSIGN_OR_RETURN(const BusSpeed speed, MeasureBus(*device_, on_device_.bytes(), BusDirection::kIn));
  return speed.bytes_per_second();
}

llvm::Expected<double> LoadedMemory::ReadingRate(const LoadPlan& load, ReadableFileSystem& files,
                                                 const ParallelOptions& parallel) {
  const std::vector<Block> blocks = BlocksOf(load.plan, {memory_.get(), bytes_});
  std::vector<std::unique_ptr<ReadableFile>> open(load.plan.source.files.size());
  std::uint64_t bytes = 0;
  for (const Block& block : blocks) {
    bytes += block.place.size();
    if (open[block.file] != nullptr) continue;
    const std::string path = JoinPath(load.source_folder, load.plan.source.files[block.file].path);
    UCP_ASSIGN_OR_RETURN(open[block.file], files.OpenForReading(path));
  }
  double seconds = 0;
  for (int pass = 0; pass < 2; ++pass) {
    const Clock::time_point start = Clock::now();
    UCP_RETURN_IF_ERROR(ForEachInStretches(blocks.size(), parallel, [&](unsigned, std::uint64_t number) {
      const Block& block = blocks[number];
      return open[block.file]->ReadAt(block.begin, block.place);
    }));
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace ucp
