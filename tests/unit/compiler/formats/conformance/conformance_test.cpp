// The duties of every format, with every checkpoint we have of it. A format joins by adding its samples to those of
// samples.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/formats/format.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/recognise/recognise.h"
#include "tests/unit/compiler/formats/conformance/samples.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/counting_file_system.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp {
namespace {

// One line for each tensor and for each part of the training state.
std::vector<std::string> Listing(const Inventory& inventory);
std::vector<std::string> Listing(const TrainingState& training);

class FormatConformance : public ::testing::TestWithParam<Sample> {
 protected:
  void SetUp() override {
    if (!GetParam().is_written()) {
      const bool is_of_torch = GetParam().format == "dcp";
      root_ = is_of_torch ? UCP_SOURCE_DIR "/tests/unit/compiler/formats/dcp/samples/" + GetParam().fixture
                          : testing::FixtureRoot(GetParam().fixture);
      return;
    }
    root_ = temporary_.path() + "/written";
    Write(format(), testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(GetParam().fixture)), root_,
          GetParam().settings);
  }

  const Format& format() const { return *FindFormat(GetParam().format); }

  static void Write(const Format& format, const Checkpoint& checkpoint, const std::string& root,
                    const std::string& settings = "") {
    auto target = testing::LayOutWhole(format, checkpoint, settings);
    ASSERT_TRUE(static_cast<bool>(target)) << TakeFailure(target.takeError()).message;
    testing::WriteTarget(*target, root);
  }

  std::string FolderOf(const std::string& path) {
    auto found = RecogniseAny(files_, path);
    if (found) return found->format == &format() ? found->folder : "of " + std::string(found->format->name());
    const FailureText failure = TakeFailure(found.takeError());
    const bool is_unknown = failure.code == ErrorCode::kUnsupported || failure.code == ErrorCode::kIo;
    return is_unknown ? "not recognised" : failure.message;
  }

  testing::CountingFileSystem files_;
  testing::TemporaryFolder temporary_;
  std::string root_;
};

TEST_P(FormatConformance, RecognisesItsOwnFromEverywhere) {
  const std::string folder = FolderOf(root_);
  ASSERT_TRUE(std::filesystem::is_directory(folder)) << folder;
  EXPECT_EQ(FolderOf(root_ + "/"), folder);
  EXPECT_EQ(FolderOf(folder), folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(FolderOf(entry.path().string()), folder) << entry.path();
  }
  auto recognised = RecogniseAny(files_, root_);
  ASSERT_TRUE(static_cast<bool>(recognised));
  EXPECT_EQ(recognised->format, &format());
}

TEST_P(FormatConformance, RecognisesNothingElse) {
  const std::string empty = temporary_.path() + "/empty";
  std::filesystem::create_directory(empty);
  std::ofstream(temporary_.path() + "/letter.txt") << "dear reader";
  EXPECT_EQ(FolderOf(empty), "not recognised");
  EXPECT_EQ(FolderOf(temporary_.path() + "/letter.txt"), "not recognised");
  EXPECT_EQ(FolderOf(temporary_.path() + "/missing"), "not recognised");
  for (const auto& other : AllFormats()) {
    if (other.get() == &format()) continue;
    auto is_one = other->IsCheckpoint(files_, FolderOf(root_));
    ASSERT_TRUE(static_cast<bool>(is_one));
    EXPECT_FALSE(*is_one) << other->name();
  }
}

// But where nothing but values says which parameter is which: halves that are copied one by one beside experts.
TEST_P(FormatConformance, ReadsHeadersOnly) {
  if (format().name() == "deepspeed" && GetParam().fixture == "moe_zero0_fused_bf16") {
    GTEST_SKIP() << "its parameters are known by their values (zero0_values.h)";
  }
  const Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  const Storage& storage = checkpoint.inventory.storage;
  std::uint64_t header_bytes = 0;
  for (const StoredFile& file : storage.files) header_bytes += file.bytes;
  for (const Record& record : storage.records) header_bytes -= record.bytes;
  // A pickle is read twice, once for its hash; of a small archive the end, where the directory is, is nearly all of it.
  EXPECT_LT(files_.bytes_read(), (format().name() == "safetensors" ? 6 : 3) * header_bytes);

  // The elements themselves do not matter.
  const std::string copy = temporary_.path() + "/copy/" + std::filesystem::path(root_).filename().string();
  std::filesystem::create_directory(temporary_.path() + "/copy");
  std::filesystem::copy(root_, copy, std::filesystem::copy_options::recursive);
  const std::string folder = FolderOf(copy);
  for (const Record& record : storage.records) {
    std::fstream file(folder + "/" + storage.files[record.file.index()].path,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(record.begin));
    file << std::string(record.bytes, '\xff');
    ASSERT_TRUE(file.good());
  }
  const Checkpoint again = testing::DescribeOrFail(files_, copy);
  EXPECT_EQ(Listing(again.inventory), Listing(checkpoint.inventory));
  EXPECT_EQ(Listing(again.training), Listing(checkpoint.training));
}

TEST_P(FormatConformance, EveryExtentLiesWithinItsFile) {
  Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  const Storage& storage = checkpoint.inventory.storage;
  const std::string folder = FolderOf(root_);
  EXPECT_EQ(checkpoint.inventory.root, folder);
  EXPECT_EQ(checkpoint.inventory.format, format().name());
  for (const StoredFile& file : storage.files) {
    EXPECT_EQ(std::filesystem::file_size(folder + "/" + file.path), file.bytes);
    EXPECT_EQ(file.header_hash.size(), 32u) << file.path;
  }
  for (const Record& record : storage.records) {
    EXPECT_LE(record.begin + record.bytes, storage.files[record.file.index()].bytes);
  }
  for (const Buffer& buffer : storage.buffers) {
    ASSERT_FALSE(buffer.parts.empty());
    for (const BufferPart& part : buffer.parts) {
      EXPECT_LE(part.elements, buffer.part_elements);
      EXPECT_LE(static_cast<std::uint64_t>((part.first_element + part.elements) * ItemBytes(buffer.dtype)),
                storage.record(part.record).bytes);
    }
  }
}

TEST_P(FormatConformance, EveryElementOfAShardIsThere) {
  Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  const Storage& storage = checkpoint.inventory.storage;
  EXPECT_FALSE(storage.shards.empty());
  for (const Shard& shard : storage.shards) {
    std::int64_t elements = 1;
    for (std::int64_t size : shard.shape) elements *= size;
    for (const StateBuffer& state : storage.buffer_sets[shard.states.index()]) {
      const Buffer& buffer = storage.buffers[state.buffer.index()];
      if (!shard.strides.empty()) {
        EXPECT_EQ(buffer.parts.size(), 1u);
        EXPECT_EQ(shard.strides.size(), shard.shape.size());
        continue;
      }
      for (const Fragment& fragment : FragmentsOf(shard.spread, shard.base, elements, buffer, 0, elements)) {
        ASSERT_LT(fragment.part, buffer.parts.size());
        EXPECT_LE(fragment.place + fragment.end - fragment.begin, buffer.parts[fragment.part].elements)
            << shard.tensor << " " << state.state;
      }
    }
  }
}

class WrittenFormatConformance : public FormatConformance {};

TEST_P(WrittenFormatConformance, LaysOutEveryByteOnce) {
  Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  auto target = testing::LayOutWhole(format(), checkpoint, GetParam().settings);
  ASSERT_TRUE(static_cast<bool>(target)) << TakeFailure(target.takeError()).message;
  std::vector<std::map<std::uint64_t, std::uint64_t>> covered(target->storage.files.size());
  auto cover = [&](FileId file, std::uint64_t begin, std::uint64_t bytes) {
    if (bytes > 0) {
      EXPECT_TRUE(covered[file.index()].emplace(begin, begin + bytes).second);
    }
  };
  for (const BlobPlacement& p : target->placements) cover(p.file, p.offset, target->blobs[p.blob.index()].size());
  for (const Shard& shard : target->storage.shards) {
    std::int64_t elements = 1;
    for (std::int64_t size : shard.shape) elements *= size;
    for (const StateBuffer& state : target->storage.buffer_set(shard.states)) {
      const Buffer& buffer = target->storage.buffer(state.buffer);
      const std::int64_t item = ItemBytes(buffer.dtype);
      for (const Fragment& piece : FragmentsOf(shard.spread, shard.base, elements, buffer, 0, elements)) {
        const BufferPart& part = buffer.parts[piece.part];
        const Record& record = target->storage.record(part.record);
        const std::int64_t begin = (part.first_element + piece.place) * item;
        cover(record.file, record.begin + static_cast<std::uint64_t>(begin),
              static_cast<std::uint64_t>((piece.end - piece.begin) * item));
      }
    }
  }
  for (std::size_t f = 0; f < covered.size(); ++f) {
    std::uint64_t end = 0;
    for (const auto& [begin, next] : covered[f]) {
      EXPECT_EQ(begin, end) << target->storage.files[f].path;
      end = next;
    }
    EXPECT_EQ(end, target->storage.files[f].bytes) << target->storage.files[f].path;
  }
  std::set<std::string> folders(target->directories.begin(), target->directories.end());
  EXPECT_EQ(folders.size(), target->directories.size());
  for (const StoredFile& file : target->storage.files) {
    const std::string parent = std::filesystem::path(file.path).parent_path().string();
    EXPECT_TRUE(parent.empty() || folders.contains(parent)) << file.path;
  }
}

TEST_P(WrittenFormatConformance, ChecksumFieldsLieInBlobsThatHaveZerosThere) {
  Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  auto target = testing::LayOutWhole(format(), checkpoint, GetParam().settings);
  ASSERT_TRUE(static_cast<bool>(target));
  std::map<std::pair<FileId, std::uint64_t>, BlobId> blob_at;
  for (const BlobPlacement& p : target->placements) blob_at[{p.file, p.offset}] = p.blob;
  EXPECT_NE(target->crc_fields.empty(), format().HasHeader("a.pt"));  // Archives have checksums.
  for (const CrcField& field : target->crc_fields) {
    auto blob = blob_at.upper_bound({field.file, field.offset});
    ASSERT_NE(blob, blob_at.begin());
    --blob;
    ASSERT_EQ(blob->first.first, field.file);
    const std::string& content = target->blobs[blob->second.index()];
    const std::uint64_t place = field.offset - blob->first.second;
    ASSERT_LE(place + 4, content.size());
    EXPECT_EQ(content.substr(place, 4), std::string(4, '\0'));
  }
}

TEST_P(WrittenFormatConformance, LaysOutTheSameTwice) {
  Checkpoint checkpoint = testing::DescribeOrFail(files_, root_);
  auto first = testing::LayOutWhole(format(), checkpoint, GetParam().settings);
  auto second = testing::LayOutWhole(format(), checkpoint, GetParam().settings);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->blobs, second->blobs);
  EXPECT_EQ(first->placements, second->placements);
  EXPECT_EQ(first->storage.files, second->storage.files);
  EXPECT_EQ(first->storage.records, second->storage.records);
}

// One line for each tensor: its kind, shape, states and dtypes.
std::vector<std::string> Listing(const Inventory& inventory) {
  std::vector<std::string> lines;
  for (const LogicalTensor& tensor : testing::WholeTensors(inventory)) {
    std::vector<std::string> states;
    for (const LogicalTensor::State& state : tensor.states) {
      states.push_back(fmt::format("{} {}", state.name, Name(state.dtype)));
    }
    std::sort(states.begin(), states.end());
    lines.push_back(fmt::format("{} kind {} [{}]: {}", tensor.name, static_cast<int>(tensor.kind),
                                fmt::join(tensor.shape, ", "), fmt::join(states, ", ")));
  }
  return lines;
}

// Everything in a training state, printed with the contents of its small tensors.
std::vector<std::string> Listing(const TrainingState& training) {
  std::vector<std::string> lines = {"tag " + training.tag};
  auto text = [&](const pytorch::ValuePtr& value) -> std::string {
    if (!value) return "missing";
    std::string contents;
    pytorch::ValuePtr plain = pytorch::ReplaceTensors(value, [&](const pytorch::ValuePtr& found) {
      const auto& tensor = *found->As<pytorch::Tensor>();
      const SmallTensorData* data = FindSmallTensor(training, tensor);
      contents += fmt::format(" {} [{}] {}", Name(tensor.dtype), fmt::join(tensor.sizes, ", "),
                              data == nullptr ? "lost" : testing::Sha256(data->bytes));
      return pytorch::MakeText("tensor");
    });
    return pytorch::Print(*plain) + contents;
  };
  auto add = [&](std::string_view what, const std::vector<pytorch::Entry>& entries) {
    std::vector<std::string> sorted;
    for (const pytorch::Entry& entry : entries) {
      sorted.push_back(fmt::format("{} {}: {}", what, pytorch::Print(*entry.key), text(entry.value)));
    }
    std::sort(sorted.begin(), sorted.end());
    lines.insert(lines.end(), sorted.begin(), sorted.end());
  };
  for (const OptimizerGroup& group : training.groups) {
    lines.push_back(fmt::format("group {} step {} of {}", text(group.hyper_parameters), text(group.step),
                                fmt::join(group.parameters, " ")));
  }
  add("optimizer", training.optimizer);
  add("engine", training.engine);
  for (const RankState& rank : training.ranks) {
    add("client", rank.client);
    add("extra", rank.module_extras);
  }
  for (const auto& [alias, canonical] : training.aliases) lines.push_back(alias + " is " + canonical);
  return lines;
}

// A static loss scaler is the one thing that a universal folder leaves out (universal/README.md).
void ForgetStaticLossScaler(TrainingState& training) {
  std::erase_if(training.optimizer, [](const pytorch::Entry& entry) {
    pytorch::ValuePtr dynamic = pytorch::Find(*entry.value, "dynamic");
    return pytorch::AsText(*entry.key) == "ds_version" ||
           (pytorch::AsText(*entry.key) == "loss_scaler" && dynamic && pytorch::AsBool(*dynamic) == false);
  });
}

// A universal folder is for ranks that each have all experts, unless its strategy says otherwise. Groups of experts are
// named after that, and those that differed in it are one: what is compared is which parameters have which settings.
std::vector<std::string> ForRanksWithAllExperts(const std::vector<std::string>& lines) {
  static const std::regex kName("'name': 'ep_size_[0-9]+'");
  std::vector<std::string> result;
  for (const std::string& line : lines) {
    const std::string renamed = std::regex_replace(line, kName, "'name': 'ep_size_1'");
    if (renamed.find("'name': 'ep_size_1'") == std::string::npos) {
      result.push_back(renamed);
      continue;
    }
    const std::size_t names = renamed.find(" of ") + 4;
    std::istringstream words(renamed.substr(names));
    for (std::string name; words >> name;) result.push_back(renamed.substr(0, names) + name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

TEST_P(FormatConformance, ComesBackFromAUniversalFolder) {
  Checkpoint before = testing::DescribeOrFail(files_, root_);
  const std::string folder = temporary_.path() + "/again";
  Write(*FindFormat("universal"), before, folder);
  Checkpoint after = testing::DescribeOrFail(files_, folder);
  EXPECT_EQ(Listing(after.inventory), Listing(before.inventory));
  EXPECT_EQ(after.inventory.facts.size(), before.inventory.facts.size());
  EXPECT_EQ(after.inventory.aliases, before.inventory.aliases);
  ForgetStaticLossScaler(before.training);
  EXPECT_EQ(ForRanksWithAllExperts(Listing(after.training)), ForRanksWithAllExperts(Listing(before.training)));
}

std::string NameOf(const ::testing::TestParamInfo<Sample>& sample) {
  std::string name = sample.param.format + "_" + sample.param.fixture + "_" + sample.param.settings;
  if (sample.param.settings.empty()) name.pop_back();
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllFormats, WrittenFormatConformance, ::testing::ValuesIn(WrittenSamples()), NameOf);
INSTANTIATE_TEST_SUITE_P(AllFormats, FormatConformance, ::testing::ValuesIn(AllSamples()), NameOf);

}  // namespace
}  // namespace ucp
