#include "runtime/difference/element_reader.h"

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {

ElementReader::ElementReader(const Plan& plan, const std::string& root, ReadableFileSystem& files,
                             const BufferSizes& sizes, unsigned threads, bool verify_checksums)
    : buffers_(sizes, threads),
      steps_(plan),
      source_(plan, root, files, verify_checksums, sizes.ledger_pieces),
      maker_(plan, steps_, nullptr, nullptr) {}

llvm::Expected<std::span<const std::byte>> ElementReader::Read(unsigned thread, const TargetRange& range) {
  UCP_CHECK(range.dtype == range.source_dtype, "a cast from {} to {}", Name(range.source_dtype), Name(range.dtype));
  const ChunkMemory memory{buffers_.chunk(thread), buffers_.term(thread), buffers_.scratch()[thread]};
  SourceReader reader(source_);
  UCP_RETURN_IF_ERROR(maker_.Make(range, memory, reader).takeError());
  return memory.chunk.first(static_cast<std::size_t>((range.end - range.begin) * ItemBytes(range.dtype)));
}

llvm::Error ElementReader::End(const ParallelOptions& options) {
  UCP_RETURN_IF_ERROR(source_.CheckChecksums(options, buffers_.scratch()));
  return source_.CheckUnchanged(options);
}

}  // namespace ucp
