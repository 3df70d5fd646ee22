#include "compiler/phases/whole_states.h"

#include <fmt/format.h>

#include "compiler/layout/product_set.h"

namespace ucp {

Storage OneFileForEachState(std::span<const LogicalTensor> tensors) {
  Storage storage;
  for (const LogicalTensor& tensor : tensors) {
    const std::int64_t elements = ProductSet::Whole(tensor.shape).local_elements();
    BufferSet states;
    for (const LogicalTensor::State& state : tensor.states) {
      auto bytes = static_cast<std::uint64_t>(elements * ItemBytes(state.dtype));
      FileId file = storage.Add(StoredFile{fmt::to_string(storage.files.size()), bytes, ""});
      RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
      states.push_back({state.name, storage.Add(Buffer{state.dtype, elements, {{record, 0, elements}}})});
    }
    storage.shards.push_back(
        {tensor.name, tensor.kind, {}, tensor.shape, {}, 0, Spread::kAcrossBuffer, storage.Add(states)});
  }
  return storage;
}

}  // namespace ucp
