#include "runtime/exchange/request.h"

#include "compiler/support/check.h"
#include "runtime/executor/saved_progress.h"

namespace ucp {

std::uint64_t BytesOf(const ByteRows& rows) {
  std::uint64_t bytes = rows.row_bytes;
  for (const ByteRows::Loop& loop : rows.loops) bytes *= loop.count;
  return bytes;
}

std::string Encode(const FileRequest& request) {
  ProgressWriter writer;
  writer.Add(static_cast<std::uint64_t>(request.kind));
  writer.Add(static_cast<std::uint64_t>(request.answer_tag));
  writer.Add(request.path);
  writer.Add(request.rows.offset);
  writer.Add(request.rows.row_bytes);
  writer.Add(std::uint64_t{request.rows.loops.size()});
  for (const ByteRows::Loop& loop : request.rows.loops) {
    writer.Add(loop.count);
    writer.Add(loop.stride_bytes);
  }
  return writer.bytes();
}

FileRequest DecodeRequest(std::string_view bytes) {
  ProgressReader reader(bytes);
  FileRequest request;
  request.kind = static_cast<RequestKind>(reader.Number());
  request.answer_tag = static_cast<int>(reader.Number());
  request.path = reader.Text();
  request.rows.offset = reader.Number();
  request.rows.row_bytes = reader.Number();
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    const std::uint64_t count = reader.Number();
    request.rows.loops.push_back({count, reader.Number()});
  }
  UCP_CHECK(!reader.has_failed() && reader.left().empty(), "a request of {} bytes of another version", bytes.size());
  return request;
}

std::string Encode(const std::vector<Look>& looks) {
  ProgressWriter writer;
  writer.Add(std::uint64_t{looks.size()});
  for (const Look& look : looks) {
    writer.Add(look.name);
    writer.Add(static_cast<std::uint64_t>(look.status.kind));
    writer.Add(std::uint64_t{look.status.is_link});
    writer.Add(look.status.leads_to);
    writer.Add(look.status.bytes);
    writer.Add(look.status.device);
    writer.Add(look.status.inode);
    writer.Add(static_cast<std::uint64_t>(look.status.modified_nanoseconds));
  }
  return writer.bytes();
}

std::vector<Look> DecodeLooks(std::string_view bytes) {
  ProgressReader reader(bytes);
  std::vector<Look> looks(reader.Count());
  for (Look& look : looks) {
    look.name = reader.Text();
    look.status.kind = static_cast<PathKind>(reader.Number());
    look.status.is_link = reader.Number() != 0;
    look.status.leads_to = reader.Text();
    look.status.bytes = reader.Number();
    look.status.device = reader.Number();
    look.status.inode = reader.Number();
    look.status.modified_nanoseconds = static_cast<std::int64_t>(reader.Number());
  }
  UCP_CHECK(!reader.has_failed() && reader.left().empty(), "a list of {} bytes of another version", bytes.size());
  return looks;
}

}  // namespace ucp
