// Lays out a `.pt` file before any of its data exists: which bytes are known now, where each storage's data will lie,
// and where the checksum of that data goes once it is known. The result is the file that torch.save writes (a stored
// zip, data at multiples of 64), and torch.load reads it as soon as data and checksums are in place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// The record `data/<i>` for the i-th of a list.
struct StorageToWrite {
  DType dtype = DType::kFloat32;
  std::uint64_t bytes = 0;
};

// Ready-made bytes of the file.
struct Blob {
  std::uint64_t offset = 0;
  std::string bytes;
};

struct StorageSlot {
  std::uint64_t offset = 0;  // A multiple of 64.
  std::uint64_t bytes = 0;
  // Where the CRC-32 of the data belongs: four little-endian bytes at each place, 0 until then. Each place lies within
  // a blob. Empty for a storage of no bytes.
  std::vector<std::uint64_t> crc32_offsets;
};

// Blobs, in order of their offsets, and slots cover every byte of the file exactly once.
struct ArchiveLayout {
  std::uint64_t bytes = 0;  // Of the file.
  std::vector<Blob> blobs;
  std::vector<StorageSlot> storages;  // As in the list that was given.
};

// `root_folder` is the file's name without its ending, as torch.save chooses it; any other name is read too. The
// storages that `root` names must have the keys "0" to "n-1", with the dtype and size of the list (checked). Storages
// that `root` does not name are written all the same. Deterministic.
ArchiveLayout LayOutArchive(std::string_view root_folder, const Value& root, std::span<const StorageToWrite> storages);

// Does the same around a pickle that exists.
ArchiveLayout LayOutArchiveAround(std::string_view root_folder, std::string_view pickle,
                                  std::span<const StorageToWrite> storages);

}  // namespace ucp::pytorch
