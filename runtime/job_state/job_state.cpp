#include "runtime/job_state/job_state.h"

#include <optional>

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

void Add(wire::ByteWriter& writer, llvm::ArrayRef<std::int64_t> numbers) {
  writer.Add(std::uint64_t{numbers.size()});
  for (const std::int64_t number : numbers) writer.Add(static_cast<std::uint64_t>(number));
}

void Add(wire::ByteWriter& writer, const dcp::PathPart& part) {
  const auto* text = std::get_if<std::string>(&part);
  writer.Add(std::uint64_t{text != nullptr});
  if (text != nullptr) {
    writer.Add(std::string_view(*text));
  } else {
    writer.Add(static_cast<std::uint64_t>(std::get<std::int64_t>(part)));
  }
}

template <typename Numbers>
Numbers ReadNumbers(wire::ByteReader& reader) {
  Numbers numbers;
  numbers.resize(reader.Count());
  for (auto& number : numbers) number = static_cast<std::int64_t>(reader.Number());
  return numbers;
}

dcp::PathPart ReadPathPart(wire::ByteReader& reader) {
  if (reader.Number() != 0) return reader.Text();
  return static_cast<std::int64_t>(reader.Number());
}

HeldEntry ReadEntry(wire::ByteReader& reader) {
  HeldEntry entry;
  entry.key = reader.Text();
  for (std::uint64_t left = reader.Count(); left > 0; --left) entry.path.push_back(ReadPathPart(reader));
  entry.is_tensor = reader.Number() != 0;
  const std::optional<DType> dtype = DTypeFromName(reader.Text());
  if (!dtype) reader.Fail();
  entry.dtype = dtype.value_or(DType::kFloat32);
  entry.shape = ReadNumbers<std::vector<std::int64_t>>(reader);
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    HeldBox box;
    box.offsets = ReadNumbers<dcp::Extents>(reader);
    box.sizes = ReadNumbers<dcp::Extents>(reader);
    entry.boxes.push_back(std::move(box));
  }
  return entry;
}

}  // namespace

std::string Encode(const HeldState& state) {
  wire::ByteWriter writer;
  writer.Add(std::uint64_t{state.size()});
  for (const HeldEntry& entry : state) {
    writer.Add(std::string_view(entry.key));
    writer.Add(std::uint64_t{entry.path.size()});
    for (const dcp::PathPart& part : entry.path) Add(writer, part);
    writer.Add(std::uint64_t{entry.is_tensor});
    writer.Add(Name(entry.dtype));
    Add(writer, entry.shape);
    writer.Add(std::uint64_t{entry.boxes.size()});
    for (const HeldBox& box : entry.boxes) {
      Add(writer, box.offsets);
      Add(writer, box.sizes);
    }
  }
  return writer.bytes();
}

llvm::Expected<HeldState> DecodeHeldState(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  HeldState state;
  for (std::uint64_t left = reader.Count(); left > 0 && !reader.has_failed(); --left) {
    state.push_back(ReadEntry(reader));
  }
  if (reader.is_at_end()) return state;
  return Fail(ErrorCode::kBadData, "a description of a rank's state is damaged; all ranks must run the same ucp");
}

}  // namespace ucp
