// A zip archive by the letter of the format (APPNOTE.TXT), as torch.save writes it: nothing compressed, checksums and
// sizes behind the data, an end record of 64 bits. One record is left open: its bytes and its checksum come later.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ucp::oracle {

class SmallZip {
 public:
  void Add(const std::string& name, const std::string& content) { Append(name, content, Crc(content)); }
  void LeaveOpen(const std::string& name, std::uint64_t bytes);
  void Finish();  // Last.

  const std::string& bytes() const { return bytes_; }  // With zeros for what comes later.
  std::uint64_t open_begin() const { return open_begin_; }
  const std::vector<std::uint64_t>& open_crc32_places() const { return open_crc32_places_; }

 private:
  static std::uint32_t Crc(const std::string& content);
  void Append(const std::string& name, const std::string& content, std::uint32_t crc32);

  std::string bytes_;
  std::string directory_;
  std::uint64_t entries_ = 0;
  std::uint64_t open_begin_ = 0;
  std::vector<std::uint64_t> open_crc32_places_;  // The second one counts from the directory's begin until the end.
};

}  // namespace ucp::oracle
