// Fused shards with real bytes: what the oracle says stands where becomes files, and what the executor writes is
// compared with them byte by byte, and its digests with those of whole tensors.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "compiler/support/error.h"
#include "runtime/digest/keyed_sum.h"
#include "runtime/executor/execute.h"
#include "runtime/trace/element_place.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp::oracle {
namespace {

// Other bits for every element; none where nothing is.
std::string BytesOf(Element element, DType dtype) {
  std::uint64_t bits = element < 0 ? 0 : (static_cast<std::uint64_t>(element) + 1) * 0x9E3779B97F4A7C15u;
  bits ^= bits >> 31;
  std::string bytes(static_cast<std::size_t>(ItemBytes(dtype)), '\0');
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

// By RecordId.
std::vector<DType> TypesOf(const StorageTables& tables) {
  std::vector<DType> types(tables.records.size());
  for (const Buffer& buffer : tables.buffers) {
    for (const BufferPart& part : buffer.parts) types[part.record.index()] = buffer.dtype;
  }
  return types;
}

// A header and the record behind it, as the oracle has one file for each.
std::map<std::string, std::string> FilesOf(const Side& side, bool is_source) {
  const Storage& storage = side.files.storage;
  const std::vector<DType> types = TypesOf(storage);
  std::map<std::string, std::string> files;
  for (std::size_t r = 0; r < storage.records.size(); ++r) {
    std::string record;
    for (Element element : side.memory[r]) record += BytesOf(element, types[r]);
    std::string header(storage.records[r].begin, 'h');
    const auto crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(record.data()), static_cast<uInt>(record.size())));
    for (std::size_t i = 0; i < 4 && !is_source; ++i) header[4 + i] = static_cast<char>(crc >> (8 * i));
    files[storage.file(RecordId(r)).path] = header + record;
  }
  return files;
}

std::string ExpectedDigest(const PlanTensor& tensor, std::int64_t number, const LogicalTensor::State& state) {
  std::int64_t elements = 1;
  for (std::int64_t length : tensor.logical.shape) elements *= length;
  std::string whole;
  for (std::int64_t i = 0; i < elements; ++i) {
    whole += BytesOf(Identity(state.name == "fp32" ? 1 : 0, number, i), state.dtype);
  }
  KeyedSum sum;
  sum.AddElements(0, static_cast<std::uint64_t>(ItemBytes(state.dtype)), std::as_bytes(std::span(whole)));
  return StateDigestOf(sum, {Name(state.dtype), tensor.logical.shape, state.name});
}

// A source and a target that copy bits, and some tensors are fused.
Compiled RandomFused(Random& random) {
  while (true) {
    Conversion conversion = RandomFusedConversion(random);
    conversion.from.weights = false;
    auto compiled = Compile(conversion);
    if (compiled && compiled->plan.writes.front().fused) return std::move(*compiled);
    llvm::consumeError(compiled.takeError());
  }
}

class FusedRun {
 public:
  explicit FusedRun(Compiled& compiled) : compiled_(compiled) {
    for (const auto& [path, content] : FilesOf(compiled.source, true)) WriteTestFile(source() + "/" + path, content);
    std::filesystem::create_directory(target());
  }

  std::string source() const { return folder_.Path("source"); }
  std::string target() const { return folder_.Path("target"); }

  llvm::Expected<ExecutionReport> Run(std::uint64_t chunk_bytes) {
    ExecutionOptions options;
    options.threads = 2;
    options.most_chunk_bytes = chunk_bytes;
    return Execute(compiled_.plan, source(), target(), RealFileSystem(), options);
  }

 private:
  Compiled& compiled_;
  ScratchFolder folder_;
};

TEST(FusedShardsTest, EveryByteAndDigestIsRight) {
  Random random(TestSeed());
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  int made = 0;
  while (std::chrono::steady_clock::now() < end) {
    Compiled compiled = RandomFused(random);
    const Plan& plan = compiled.plan;
    FusedRun run(compiled);
    auto report = run.Run(Pick(random, 0, 1) == 0 ? 16 : 4096);
    ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
    ASSERT_EQ(FilesUnder(run.target()), FilesOf(compiled.target, false));
    std::map<std::string, std::string> expected;
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      for (const LogicalTensor::State& state : plan.tensors[t].logical.states) {
        const std::string& name = plan.tensors[t].logical.name;
        expected[name + " " + state.name] = ExpectedDigest(plan.tensors[t], std::stoll(name.substr(1)), state);
      }
    }
    std::map<std::string, std::string> found;
    for (const StateDigest& digest : report->digests) found[digest.tensor + " " + digest.state] = digest.digest;
    ASSERT_EQ(found, expected);
    ++made;
  }
  std::printf("%d conversions\n", made);
  EXPECT_GT(made, 0);
}

// A replica that differs is reported as an element of its own tensor, whatever else is in the shard.
TEST(FusedShardsTest, ADifferenceIsOfItsTensor) {
  Random random(TestSeed());
  int refused = 0;
  for (int i = 0; i < 200 && refused < 20; ++i) {
    Compiled compiled = RandomFused(random);
    const Plan& plan = compiled.plan;
    // One element of a record that only replicas are in.
    std::vector<bool> is_copied(plan.source.records.size());
    std::vector<bool> is_compared(plan.source.records.size());
    for (const PlanRead& read : plan.reads) {
      for (const StateBuffer& entry : plan.source.buffer_set(read.states)) {
        for (const BufferPart& part : plan.source.buffer(entry.buffer).parts) {
          (read.role == ReadRole::kCompare ? is_compared : is_copied)[part.record.index()] = true;
        }
      }
    }
    for (std::size_t r = 0; r < is_copied.size(); ++r) {
      std::vector<Element>& memory = compiled.source.memory[r];
      const auto place = std::find_if(memory.begin(), memory.end(), [](Element e) { return e >= 0; });
      if (is_copied[r] || !is_compared[r] || place == memory.end()) continue;
      const std::int64_t tensor = (*place >> 40) & 0xff;
      const std::int64_t index = *place & ((std::int64_t{1} << 40) - 1);
      *place += std::int64_t{1} << 30;
      FusedRun run(compiled);
      auto report = run.Run(4096);
      ASSERT_FALSE(static_cast<bool>(report));
      const std::string message = TakeFailure(report.takeError()).message;
      const std::string name = fmt::format("t{}", tensor);
      for (const PlanTensor& one : plan.tensors) {
        if (one.logical.name != name) continue;
        const std::string where = fmt::format("[{}]", fmt::join(IndexOf(index, one.logical.shape), ", "));
        EXPECT_THAT(message, testing::HasSubstr(fmt::format("element {} of ", where)));
        EXPECT_THAT(message, testing::HasSubstr(fmt::format("of tensor `{}`", name)));
      }
      ++refused;
      break;
    }
  }
  EXPECT_GE(refused, 20);
}

// The places of the target that `trace` shows: where each element stands.
TEST(FusedShardsTest, EachElementIsFoundWhereItStands) {
  Random random(TestSeed());
  for (int i = 0; i < 200; ++i) {
    const Compiled compiled = RandomFused(random);
    const Plan& plan = compiled.plan;
    std::map<std::string, std::size_t> record_of_path;
    for (std::size_t r = 0; r < plan.target.records.size(); ++r) record_of_path[plan.target.file(RecordId(r)).path] = r;
    std::size_t found = 0;
    for (const PlanWrite& write : plan.writes) {
      for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        const std::vector<std::int64_t>& shape = plan.tensors[t].logical.shape;
        std::int64_t elements = 1;
        for (std::int64_t length : shape) elements *= length;
        for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
          for (std::int64_t e = 0; e < elements; ++e) {
            const auto place = PlaceInTarget(plan, write, TensorId(t), entry.buffer, IndexOf(e, shape));
            if (!place) continue;
            const std::size_t r = record_of_path.at(place->file);
            const std::uint64_t in_record = place->offset - plan.target.records[r].begin;
            const auto at = static_cast<std::size_t>(in_record / static_cast<std::uint64_t>(ItemBytes(place->dtype)));
            const std::int64_t number = std::stoll(plan.tensors[t].logical.name.substr(1));
            ASSERT_EQ(Spell(compiled.target.memory[r][at]), Spell(Identity(entry.state == "fp32" ? 1 : 0, number, e)));
            ++found;
          }
        }
      }
    }
    std::size_t real = 0;
    for (const std::vector<Element>& memory : compiled.target.memory) {
      real += static_cast<std::size_t>(std::count_if(memory.begin(), memory.end(), [](Element e) { return e >= 0; }));
    }
    ASSERT_EQ(found, real);
  }
}

}  // namespace
}  // namespace ucp::oracle
