#include "compiler/formats/training_state.h"

#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

template <typename T>
std::optional<double> Decode(const std::string& bytes) {
  T value = 0;
  if (bytes.size() != sizeof(value)) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

constexpr std::string_view kLargeKey = "large ";  // And the tensor's place; the key of a small one is its place alone.

template <typename T>
const T* At(const std::vector<T>& list, std::string_view key) {
  std::size_t place = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), place);
  return error == std::errc() && end == key.data() + key.size() && place < list.size() ? &list[place] : nullptr;
}

}  // namespace

std::string StepText(const TrainingState& training, const pytorch::ValuePtr& step) {
  if (!step) return "missing";
  std::optional<double> number = StepNumber(training, *step);
  if (!number) return pytorch::Print(*step);
  const auto* tensor = step->As<pytorch::Tensor>();
  return tensor == nullptr ? fmt::format("{}", *number) : fmt::format("{} ({})", *number, Name(tensor->dtype));
}

// Equal contents of small tensors have equal keys, so equal steps print equally.
bool IsSameStep(const pytorch::ValuePtr& a, const pytorch::ValuePtr& b) {
  return a && b ? pytorch::Print(*a) == pytorch::Print(*b) : a == b;
}

pytorch::ValuePtr FindEntry(const std::vector<pytorch::Entry>& entries, std::string_view key) {
  for (const pytorch::Entry& entry : entries) {
    if (pytorch::AsText(*entry.key) == key) return entry.value;
  }
  return nullptr;
}

std::string_view CalledInMessages(const TrainingState& training) {
  return training.is_synthetic ? "the synthetic model" : "the source";
}

LargeTensor MakeLargeTensor(std::string name, DType dtype, std::vector<std::int64_t> sizes,
                            std::vector<std::int64_t> strides, BufferSetId states, std::int64_t base) {
  Shard shard;
  shard.tensor = name;
  shard.kind = TensorKind::kCarried;
  shard.shape = sizes;
  shard.strides = std::move(strides);
  shard.base = base;
  shard.states = states;
  return {std::move(name), dtype, std::move(sizes), {std::move(shard)}, {}};
}

std::string AddTensor(TrainingState& training, SmallTensorData data) {
  training.small_tensors.push_back(std::move(data));
  return fmt::format("{}", training.small_tensors.size() - 1);
}

std::string AddTensor(TrainingState& training, LargeTensor tensor) {
  training.large_tensors.push_back(std::move(tensor));
  return fmt::format("{}{}", kLargeKey, training.large_tensors.size() - 1);
}

const SmallTensorData* FindSmallTensor(const TrainingState& training, const pytorch::Tensor& tensor) {
  return At(training.small_tensors, tensor.storage->key);
}

const LargeTensor* FindLargeTensor(const TrainingState& training, const pytorch::Tensor& tensor) {
  std::string_view key = tensor.storage->key;
  if (!key.starts_with(kLargeKey)) return nullptr;
  return At(training.large_tensors, key.substr(kLargeKey.size()));
}

std::optional<double> StepNumber(const TrainingState& training, const pytorch::Value& step) {
  if (auto number = pytorch::AsDouble(step)) return number;
  const auto* tensor = step.As<pytorch::Tensor>();
  const SmallTensorData* data = tensor != nullptr ? FindSmallTensor(training, *tensor) : nullptr;
  if (data == nullptr) return std::nullopt;
  if (data->dtype == DType::kFloat32) return Decode<float>(data->bytes);
  if (data->dtype == DType::kFloat64) return Decode<double>(data->bytes);
  if (data->dtype == DType::kInt64) return Decode<std::int64_t>(data->bytes);
  if (data->dtype == DType::kInt32) return Decode<std::int32_t>(data->bytes);
  return std::nullopt;
}

llvm::Error CheckSameStep(const TrainingState& training, const pytorch::ValuePtr& a, const std::string& a_path,
                          const pytorch::ValuePtr& b, const std::string& b_path) {
  if (IsSameStep(a, b)) return llvm::Error::success();
  return Fail(ErrorCode::kBadData,
              "the optimizer's step is {} in `{}` and {} in `{}`; these files are not of one checkpoint",
              StepText(training, a), a_path, StepText(training, b), b_path);
}

}  // namespace ucp
