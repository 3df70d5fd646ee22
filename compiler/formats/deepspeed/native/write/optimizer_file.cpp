#include "compiler/formats/deepspeed/native/write/optimizer_file.h"

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

std::string OptimizerFileName(const WriteOptions& options, PartitionOf place) {
  return OptimizerStatesName(options.dtype == DType::kBFloat16 ? "bf16_" : "", place);
}

ValuePtr ZeroStage(std::int64_t stage) {
  pytorch::Call call;
  call.callable = pytorch::MakeGlobal("deepspeed.runtime.zero.config", "ZeroStageEnum");
  call.arguments = pytorch::MakeTuple({MakeInteger(stage)});
  return pytorch::MakeCall(std::move(call));
}

std::vector<Entry> LossScaleEntries(const Carried& carried, ArchiveComposer& composer) {
  if (!carried.loss_scaler) return {};
  return {{MakeText("loss_scaler"), composer.AddValue(carried.loss_scaler)},
          {MakeText("dynamic_loss_scale"), carried.dynamic_loss_scale}};
}

ValuePtr ParamGroup(const OptimizerGroup& group, const std::vector<std::int64_t>& numbers, ArchiveComposer& composer) {
  std::vector<Entry> entries = composer.AddEntries(*pytorch::Entries(*group.hyper_parameters));
  std::vector<ValuePtr> params;
  for (std::int64_t number : numbers) params.push_back(MakeInteger(number));
  entries.push_back({MakeText("params"), pytorch::MakeList(std::move(params))});
  return MakeDict(std::move(entries));
}

std::vector<Entry> OptimizerFileEntries(std::vector<Entry> optimizer, const TrainingState& training,
                                        const Carried& carried, ArchiveComposer& composer) {
  std::vector<Entry> file = {{MakeText("optimizer_state_dict"), MakeDict(std::move(optimizer))}};
  if (ValuePtr config = FindEntry(carried.engine, "ds_config")) {
    file.push_back({MakeText("ds_config"), composer.AddValue(config)});
  }
  file.push_back({MakeText("ds_version"), VersionOf(training)});
  return file;
}

const std::vector<LogicalTensor::State>& StatesOf(const FlatGroupToWrite& group) {
  return group.parameters.front().tensor->states;
}

void AddZeros(TargetFiles& target, RecordId record, DType dtype, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const std::int64_t item_bytes = ItemBytes(dtype);
  const FileId file = target.storage.record(record).file;
  const std::uint64_t at = target.storage.record(record).begin + static_cast<std::uint64_t>(begin * item_bytes);
  target.placements.push_back(
      {file, at, target.AddBlob(std::string(static_cast<std::size_t>((end - begin) * item_bytes), '\0'))});
}

}  // namespace ucp::deepspeed
