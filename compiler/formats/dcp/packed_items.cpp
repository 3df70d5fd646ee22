// Every item that some entry's chunk lies in is listed, also chunks without elements and copies of chunks, which a
// description passes over: PyTorch's reader opens whatever the metadata places.
#include "compiler/formats/dcp/packed_items.h"

#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/item.h"
#include "compiler/formats/dcp/metadata.h"
#include "compiler/support/error.h"

namespace ucp::dcp {

llvm::Expected<std::vector<PackedArchive>> PackedItems(ReadableFileSystem& files, const std::string& folder) {
  std::vector<PackedArchive> items;
  UCP_ASSIGN_OR_RETURN(const bool has_metadata, HasMetadata(files, folder));
  if (!has_metadata) return items;
  UCP_ASSIGN_OR_RETURN(const bool is_megatron, IsOfMegatron(files, folder));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, MetadataFilesOf(files, folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files, path, kMostMetadataBytes));
    // The chunks of one rank may be anything.
    auto metadata = ReadMetadata(bytes, is_megatron ? MetadataOf::kMegatron : MetadataOf::kOneRank);
    if (!metadata) return AddContext(metadata.takeError(), fmt::format("`{}`", path));
    for (const Entry& entry : metadata->entries) {
      for (const Chunk& chunk : entry.chunks) {
        if (chunk.place.bytes == 0) continue;
        const std::string& file = metadata->files[chunk.place.file];
        const std::string unpacked = chunk.place.is_packed ? NameToUnpack(file, entry, chunk).Path() : "";
        items.push_back({file, unpacked, chunk.place.offset, chunk.place.bytes});
      }
    }
  }
  return items;
}

}  // namespace ucp::dcp
