// The layout of the native writer, element by element, against an oracle that follows DeepSpeed's own words: lists of
// elements are concatenated, dealt out, padded and cut. Models, groups, ranks and settings are random, and every
// element of every state is a number of its own. The files are poured out and read back as PyTorch would see them.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compiler/formats/format.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "tests/unit/compiler/formats/deepspeed/native/native_oracle.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::deepspeed {
namespace {

using oracle::Pick;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;

// The target of a model, poured out into a folder.
class Written {
 public:
  explicit Written(const NativeModel& model) : model_(model) {
    auto target = LayOut();
    if (!target) {
      ADD_FAILURE() << TakeFailure(target.takeError()).message;
      return;
    }
    for (const std::string& directory : target->directories) {
      std::filesystem::create_directory(temporary_.path() + "/" + directory);
    }
    Pour(*target);
    for (const StoredFile& file : target->storage.files) {
      if (file.path.ends_with(".pt")) ReadFile(file.path);
    }
  }

  // By file and place in its pickle.
  std::map<std::string, Elements> tensors;
  std::map<std::string, std::string> texts;

 private:
  llvm::Expected<TargetFiles> LayOut() const {
    Layout layout;
    layout.mesh.axes = {{"pp", 1}, {"tp", model_.tp}, {"dp", model_.dp}};
    std::vector<LogicalTensor> tensors_of_model;
    for (const NativeTensor& tensor : model_.tensors) {
      TensorLayout placed;
      placed.name = tensor.name;
      for (std::int64_t size : tensor.shape) placed.dims.push_back(ShapeExpr::Length(size));
      if (tensor.is_cut) placed.dims[0] = ShapeExpr::Cut(placed.dims[0], {"tp"});
      layout.tensors.push_back(std::move(placed));
      std::vector<LogicalTensor::State> states = {{kWeightState, DType::kFloat32}};
      if (tensor.kind == TensorKind::kParameter) {
        states = {{"exp_avg", DType::kFloat32}, {"exp_avg_sq", DType::kFloat32}, {kMasterState, DType::kFloat32}};
      }
      tensors_of_model.push_back({tensor.name, tensor.kind, tensor.shape, std::move(states), {}});
    }
    TrainingState training;
    training.tag = "tag";
    training.ranks.resize(1);
    training.engine = {{MakeText("ds_config"), MakeDict({})}, {MakeText("global_steps"), MakeInteger(3)}};
    for (const std::vector<std::size_t>& members : model_.groups) {
      OptimizerGroup group{MakeDict({{MakeText("lr"), pytorch::MakeDouble(0.5)}}), MakeInteger(3), {}};
      for (std::size_t member : members) group.parameters.push_back(model_.tensors[member].name);
      training.groups.push_back(std::move(group));
    }
    auto strategy = ParseStrategy("deepspeed:" + model_.Settings());
    if (!strategy) return strategy.takeError();
    const Mesh source;
    TargetRequest request{tensors_of_model, layout, training, source, *strategy};
    request.threads = 3;
    llvm::Expected<TargetFiles> by_several = FindFormat("deepspeed")->LayOut(request);
    request.threads = 1;
    llvm::Expected<TargetFiles> by_one = FindFormat("deepspeed")->LayOut(request);
    if (by_one && by_several) ExpectSame(*by_one, *by_several);
    llvm::consumeError(by_several.takeError());
    return by_one;
  }

  static void ExpectSame(const TargetFiles& by_one, const TargetFiles& by_several) {
    EXPECT_TRUE(static_cast<const StorageTables&>(by_one.storage) == by_several.storage);
    EXPECT_TRUE(by_one.storage.shards == by_several.storage.shards);
    EXPECT_TRUE(by_one.blobs == by_several.blobs);
    EXPECT_TRUE(by_one.placements == by_several.placements);
    EXPECT_TRUE(by_one.crc_fields == by_several.crc_fields);
    EXPECT_EQ(by_one.remarks, by_several.remarks);
  }

  // As the executor would, with a byte that nothing else writes where it would write nothing.
  void Pour(const TargetFiles& target) const {
    std::vector<std::string> contents;
    for (const StoredFile& file : target.storage.files) contents.emplace_back(file.bytes, '\x5a');
    for (const BlobPlacement& placement : target.placements) {
      const std::string& blob = target.blobs[placement.blob.index()];
      contents[placement.file.index()].replace(placement.offset, blob.size(), blob);
    }
    for (const Shard& shard : target.storage.shards) {
      for (const StateBuffer& state : target.storage.buffer_set(shard.states)) {
        const Elements elements = model_.Local(shard.tensor, state.state, shard.coordinate.At("tp"));
        const Buffer& buffer = target.storage.buffer(state.buffer);
        const std::int64_t item = ItemBytes(buffer.dtype);
        const std::int64_t count = std::ssize(elements);
        for (const Fragment& fragment : FragmentsOf(shard.spread, shard.base, count, buffer, 0, count)) {
          const BufferPart& part = buffer.parts[fragment.part];
          const Record& record = target.storage.record(part.record);
          for (std::int64_t i = fragment.begin; i < fragment.end; ++i) {
            const std::int64_t place = part.first_element + fragment.place + i - fragment.begin;
            ASSERT_LE(static_cast<std::uint64_t>((place + 1) * item), record.bytes) << shard.tensor;
            std::string& content = contents[record.file.index()];
            for (std::int64_t byte = 0; byte < item; ++byte) {
              content[record.begin + static_cast<std::uint64_t>(place * item + byte)] =
                  static_cast<char>(elements[static_cast<std::size_t>(i)] >> (8 * byte) & 0xff);
            }
          }
        }
      }
    }
    for (const CrcField& field : target.crc_fields) {
      const Record& record = target.storage.record(field.record);
      const std::uint32_t crc32 = Crc32(contents[record.file.index()].substr(record.begin, record.bytes));
      for (std::uint64_t byte = 0; byte < 4; ++byte) {
        contents[field.file.index()][field.offset + byte] = static_cast<char>(crc32 >> (8 * byte) & 0xff);
      }
    }
    for (std::size_t f = 0; f < contents.size(); ++f) {
      std::ofstream(temporary_.path() + "/" + target.storage.files[f].path, std::ios::binary) << contents[f];
    }
  }

  void ReadFile(const std::string& path) {
    auto file = RealFiles().OpenForReading(temporary_.path() + "/" + path);
    ASSERT_TRUE(static_cast<bool>(file)) << path;
    auto archive = pytorch::ReadArchive(**file);
    ASSERT_TRUE(static_cast<bool>(archive)) << TakeFailure(archive.takeError()).message;
    Walk(**file, *archive, *archive->root(), path);
  }

  void Walk(const ReadableFile& file, const pytorch::Archive& archive, const pytorch::Value& value,
            const std::string& place) {
    if (const auto* tensor = value.As<pytorch::Tensor>()) {
      auto bytes = pytorch::ReadSmallTensor(file, archive, *tensor);
      ASSERT_TRUE(static_cast<bool>(bytes)) << place << ": " << TakeFailure(bytes.takeError()).message;
      Elements& elements = tensors[place];
      const auto item = static_cast<std::size_t>(ItemBytes(tensor->dtype));
      for (std::size_t at = 0; at < bytes->size(); at += item) {
        std::int64_t element = 0;
        for (std::size_t byte = item; byte-- > 0;) {
          element = element << 8 | static_cast<unsigned char>((*bytes)[at + byte]);
        }
        elements.push_back(element);
      }
      texts[place] = fmt::format("{} [{}]", Name(tensor->dtype), fmt::join(tensor->sizes, ", "));
      return;
    }
    for (const char* list : {"/param_shapes", "/group_paddings", "/partition_count", "/param_slice_mappings",
                             "/param_alignment_paddings", "/frozen_param_shapes"}) {
      if (place.ends_with(list)) texts[place] = Short(value);
    }
    const auto* entries = pytorch::Entries(value);
    for (const pytorch::Entry& entry : entries != nullptr ? *entries : std::vector<pytorch::Entry>()) {
      auto text = pytorch::AsText(*entry.key);
      Walk(file, archive, *entry.value, place + "/" + (text ? std::string(*text) : pytorch::Print(*entry.key)));
    }
    const auto* items = pytorch::Items(value);
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      Walk(file, archive, *(*items)[i], fmt::format("{}/{}", place, i));
    }
  }

  // "{p1: [2, 3], p0: {2, 4}}": sizes in brackets, addresses as number of elements and start.
  static std::string Short(const pytorch::Value& value) {
    std::vector<std::string> parts;
    if (const auto* call = value.As<pytorch::Call>(); call != nullptr && !pytorch::IsOrderedDict(value)) {
      if (pytorch::ValuePtr start = pytorch::Find(value, "start")) {
        return fmt::format("{} at {}", *pytorch::AsInteger(*pytorch::Find(value, "numel")),
                           *pytorch::AsInteger(*start));
      }
      return Short(*pytorch::Items(*call->arguments)->front());  // torch.Size
    }
    if (const auto* entries = pytorch::Entries(value)) {
      for (const pytorch::Entry& entry : *entries) {
        parts.push_back(fmt::format("{}: {}", *pytorch::AsText(*entry.key), Short(*entry.value)));
      }
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
    const auto* items = pytorch::Items(value);
    if (items == nullptr) return pytorch::Print(value);
    for (const pytorch::ValuePtr& item : *items) parts.push_back(Short(*item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }

  const NativeModel& model_;
  testing::TemporaryFolder temporary_;
};

NativeModel RandomModel(oracle::Random& random) {
  NativeModel model;
  model.tp = Pick(random, 1, 2);
  model.dp = Pick(random, 1, 5);
  model.stage = Pick(random, 0, 3);
  const std::int64_t groups = Pick(random, 1, 3);
  const std::int64_t parameters = groups + Pick(random, 0, 5);
  const std::int64_t others = Pick(random, 0, 3);
  for (std::int64_t i = 0; i < parameters + others; ++i) {
    NativeTensor tensor{fmt::format("t{:02}", i), TensorKind::kParameter, {}, Pick(random, 0, 1) == 1};
    if (i >= parameters) tensor.kind = Pick(random, 0, 1) == 1 ? TensorKind::kFrozen : TensorKind::kBuffer;
    tensor.shape.push_back(Pick(random, 1, 9) * (tensor.is_cut ? model.tp : 1));
    if (Pick(random, 0, 1) == 1) tensor.shape.push_back(Pick(random, 1, 5));
    model.tensors.push_back(std::move(tensor));
  }
  model.groups.resize(static_cast<std::size_t>(groups));
  for (std::int64_t i = 0; i < parameters; ++i) {
    auto& group = model.groups[static_cast<std::size_t>(i < groups ? i : Pick(random, 0, groups - 1))];
    group.insert(group.begin() + Pick(random, 0, std::ssize(group)), static_cast<std::size_t>(i));
  }
  const bool is_flat = model.stage == 1 || model.stage == 2;
  model.dtype =
      std::vector{DType::kFloat32, DType::kFloat16, DType::kBFloat16}[static_cast<std::size_t>(Pick(random, 0, 2))];
  model.bf16_optimizer = model.stage == 1 && model.dtype == DType::kBFloat16 && Pick(random, 0, 1) == 1;
  model.round_robin = is_flat && !model.bf16_optimizer && Pick(random, 0, 1) == 1;
  model.alignment = is_flat && !model.bf16_optimizer && Pick(random, 0, 1) == 1;
  model.elastic = is_flat && !model.bf16_optimizer && Pick(random, 0, 1) == 1;
  model.fused = Pick(random, 0, 1) == 1;
  model.sub_group_size = Pick(random, 1, 30);
  return model;
}

TEST(NativeWrite, EveryElementIsWhereDeepSpeedLooksForIt) {
  oracle::Random random(oracle::TestSeed());
  std::map<std::int64_t, int> seen;
  for (int i = 0; i < 150; ++i) {
    const NativeModel model = RandomModel(random);
    ++seen[model.stage];
    const Written written(model);
    const NativeOracle expected(model);
    EXPECT_EQ(written.tensors, expected.tensors) << model.Settings();
    for (const auto& [place, text] : expected.texts) {
      auto found = written.texts.find(place);
      EXPECT_EQ(found == written.texts.end() ? "missing" : found->second, text) << place << " of " << model.Settings();
    }
    if (HasFailure()) {
      FAIL() << "model " << i << " of seed " << oracle::TestSeed();
    }
  }
  EXPECT_EQ(seen.size(), 4u);
}

}  // namespace
}  // namespace ucp::deepspeed
