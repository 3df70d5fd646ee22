#include "compiler/formats/dcp/item_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/formats/dcp/metadata.h"
#include "tests/unit/compiler/formats/dcp/saved_dict.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::dcp {
namespace {

using pytorch::FileRange;

// Two items of equal length in one file, which the real PyTorch wrote.
struct Pair {
  std::string file;
  FileRange first;
  FileRange second;
};

std::string FolderOf(const std::string& fixture) {
  return std::string(UCP_SOURCE_DIR) + "/tests/fixtures/dcp/" + fixture + "/checkpoint";
}

std::vector<Pair> PairsIn(const std::string& folder) {
  auto metadata = ReadMetadata(FileContent(folder + "/.metadata"));
  EXPECT_TRUE(static_cast<bool>(metadata)) << llvm::toString(metadata.takeError());
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<FileRange>> alike;
  for (const Entry& entry : metadata->entries) {
    for (const Chunk& chunk : entry.chunks) {
      if (!entry.is_tensor) continue;
      alike[{chunk.place.file, chunk.place.bytes}].push_back({chunk.place.offset, chunk.place.bytes});
    }
  }
  std::vector<Pair> pairs;
  for (const auto& [key, items] : alike) {
    for (std::size_t i = 1; i < items.size(); ++i) {
      pairs.push_back({folder + "/" + metadata->files[key.first], items[0], items[i]});
    }
  }
  return pairs;
}

// All that a form and an item say, or why it was refused.
std::string TextOf(llvm::Expected<FormedItem> read, const ItemForm** form) {
  if (!read) return llvm::toString(read.takeError());
  if (form != nullptr) *form = read->form;
  const ItemTensor& tensor = read->form->tensor;
  std::string text = fmt::format("{} of {} at {} + {}, {}, {}:", Name(tensor.dtype), tensor.record_bytes,
                                 tensor.record_begin, tensor.offset, read->form->pickle_hash, read->crc32.value_or(0));
  for (const std::int64_t size : tensor.sizes) text += fmt::format(" {}", size);
  for (const std::int64_t stride : tensor.strides) text += fmt::format(" by {}", stride);
  return text;
}

std::string ReadWith(ItemForms& forms, const ReadableFile& file, FileRange item, const ItemForm** form = nullptr) {
  ItemFile ends(file);
  if (llvm::Error error = ends.Move(item, std::nullopt)) return llvm::toString(std::move(error));
  return TextOf(forms.Read(ends, item, true), form);
}

std::string ReadAlone(const ReadableFile& file, FileRange item) {
  pytorch::PickleCache cache;
  ItemForms forms(cache);
  return ReadWith(forms, file, item);
}

TEST(ItemForms, ItemsOfOneFormAreReadAsIfAlone) {
  std::size_t shared = 0;
  for (const char* name : {"fsdp2", "fsdp2_tp", "ddp_amsgrad", "torch_2_2", "torch_2_4"}) {
    for (const Pair& pair : PairsIn(FolderOf(name))) {
      const pytorch::MemoryFile file(FileContent(pair.file));
      pytorch::PickleCache cache;
      ItemForms forms(cache);
      const ItemForm* first = nullptr;
      const ItemForm* second = nullptr;
      EXPECT_EQ(ReadWith(forms, file, pair.first, &first), ReadAlone(file, pair.first));
      EXPECT_EQ(ReadWith(forms, file, pair.second, &second), ReadAlone(file, pair.second));
      if (first == second) ++shared;
    }
  }
  EXPECT_GT(shared, 50U);
}

// Whatever byte of an item is wrong: it is read, or refused, as if there had been no other.
TEST(ItemForms, AnItemWithAnyByteChangedIsReadAsIfAlone) {
  pytorch::PickleCache cache;
  ItemForms forms(cache);
  const std::vector<Pair> pairs = PairsIn(FolderOf("fsdp2"));
  const auto found = std::ranges::find_if(pairs, [&](const Pair& pair) {
    const pytorch::MemoryFile file(FileContent(pair.file));
    const ItemForm* first = nullptr;
    const ItemForm* second = nullptr;
    ReadWith(forms, file, pair.first, &first);
    ReadWith(forms, file, pair.second, &second);
    return first == second;
  });
  ASSERT_NE(found, pairs.end());
  const Pair& pair = *found;
  const std::string bytes = FileContent(pair.file);
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < pair.second.bytes; ++i) {
    for (const int flip : {0x01, 0x80}) {
      std::string changed = bytes;
      char& byte = changed[pair.second.offset + i];
      byte = static_cast<char>(byte ^ flip);
      const pytorch::MemoryFile file(changed);
      const std::string alone = ReadAlone(file, pair.second);
      EXPECT_EQ(ReadWith(forms, file, pair.second), alone) << "byte " << i << " ^ " << flip;
      if (alone.find('`') != std::string::npos) ++refused;  // Errors name the file.
    }
  }
  EXPECT_GT(refused, 200U);
}

// Neighbours are read with one call: in turn they are what each is alone, whether they are small or large.
TEST(ItemForms, ItemsInTurnAreReadAsIfAlone) {
  SavedDict saved;
  int number = 0;
  for (const std::int64_t rows : {1, 1500, 1, 1, 1500, 1500, 2, 1}) {
    saved.Tensor({"model", fmt::format("t{}", number)}, {rows}, static_cast<float>(number));
    ++number;
  }
  const testing::TemporaryFolder folder;
  saved.WriteTo(folder.path());
  auto metadata = ReadMetadata(FileContent(folder.path() + "/.metadata"));
  ASSERT_TRUE(static_cast<bool>(metadata));
  std::vector<FileRange> items;
  for (const Entry& entry : metadata->entries) {
    items.push_back({entry.chunks.front().place.offset, entry.chunks.front().place.bytes});
  }
  const pytorch::MemoryFile file(FileContent(folder.path() + "/" + metadata->files.front()));
  pytorch::PickleCache cache;
  ItemForms forms(cache);
  ItemFile ends(file);
  std::set<const ItemForm*> distinct;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_FALSE(ends.Move(items[i], i + 1 < items.size() ? std::optional(items[i + 1]) : std::nullopt));
    const ItemForm* form = nullptr;
    EXPECT_EQ(TextOf(forms.Read(ends, items[i], true), &form), ReadAlone(file, items[i])) << i;
    distinct.insert(form);
  }
  EXPECT_EQ(distinct.size(), 3U);
}

}  // namespace
}  // namespace ucp::dcp
