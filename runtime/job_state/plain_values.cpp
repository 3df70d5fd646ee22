#include "runtime/job_state/plain_values.h"

#include <utility>

#include "compiler/formats/pytorch/archive/archive_writer.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp {
namespace {

pytorch::ValuePtr ValueOf(bool value) { return pytorch::MakeBool(value); }
pytorch::ValuePtr ValueOf(std::int64_t value) { return pytorch::MakeInteger(value); }
pytorch::ValuePtr ValueOf(double value) { return pytorch::MakeDouble(value); }
pytorch::ValuePtr ValueOf(const std::string& value) { return pytorch::MakeText(value); }

template <typename T>
pytorch::ValuePtr ValueOf(const std::vector<T>& values) {
  std::vector<pytorch::ValuePtr> items;
  items.reserve(values.size());
  for (const T& value : values) items.push_back(ValueOf(value));
  return pytorch::MakeList(std::move(items));
}

}  // namespace

std::string PickledValues(std::span<const PlainValue> values) {
  std::vector<pytorch::Entry> entries;
  for (const PlainValue& value : values) {
    entries.push_back(
        {pytorch::MakeText(value.key), std::visit([](const auto& one) { return ValueOf(one); }, value.value)});
  }
  const pytorch::ArchiveLayout layout = pytorch::LayOutArchive("archive", *pytorch::MakeDict(std::move(entries)), {});
  std::string archive(layout.bytes, '\0');
  for (const pytorch::Blob& blob : layout.blobs) archive.replace(blob.offset, blob.bytes.size(), blob.bytes);
  return archive;
}

}  // namespace ucp
