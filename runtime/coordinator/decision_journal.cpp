#include "runtime/coordinator/decision_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "runtime/coordinator/messages.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr std::size_t kChecksumDigits = 8;

std::string LineOfEntry(const CoordinatorEntry& entry) {
  const std::string json = LineOf(llvm::json::Value(JsonOf(entry)));
  return fmt::format("{:08x} {}\n", Crc32(json), json);
}

llvm::Expected<CoordinatorEntry> ParseLine(std::string_view line) {
  if (line.size() <= kChecksumDigits || line[kChecksumDigits] != ' ') {
    return MakeError(ErrorCode::kBadData, "it has no checksum");
  }
  const std::string_view json = line.substr(kChecksumDigits + 1);
  if (const std::string checksum = fmt::format("{:08x}", Crc32(json)); !line.starts_with(checksum)) {
    return Fail(ErrorCode::kBadData, "its checksum is {}, and that of its text {}", line.substr(0, kChecksumDigits),
                checksum);
  }
  return ParseEntry(json);
}

// The name of a new file is durable with its folder.
llvm::Error SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor opened = OpenDescriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (!opened.is_open() || ::fsync(opened.number()) != 0) return SystemError("sync", folder, errno);
  return llvm::Error::success();
}

}  // namespace

// Returns where the last whole line ends. A file of another kind stays as it is, also if it has one line.
llvm::Expected<std::size_t> DecisionJournal::ReadEntries(std::string_view text) {
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    llvm::Expected<CoordinatorEntry> entry = ParseLine(text.substr(begin, end - begin));
    if (!entry && end + 1 == text.size()) {
      llvm::consumeError(entry.takeError());
      break;
    }
    if (!entry) return AddContext(entry.takeError(), fmt::format("`{}`: line {} is damaged", path_, number));
    entries_.push_back(std::move(*entry));
    begin = end + 1;
  }
  const std::string_view head = text.substr(begin, kChecksumDigits);
  if (head.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return Fail(ErrorCode::kBadData,
                "`{}` is not the journal of a coordinator: byte {} begins neither a line nor the "
                "end of one that was torn",
                path_, begin);
  }
  return begin;
}

llvm::Expected<DecisionJournal> DecisionJournal::Open(const std::string& path) {
  DecisionJournal journal(path, OpenDescriptor(path, O_RDWR | O_CREAT));
  const int file = journal.file_.number();
  if (!journal.file_.is_open()) return SystemError("open", path, errno);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock", path, errno);
    return Fail(ErrorCode::kUsage, "`{}` is the journal of another coordinator, which still runs", path);
  }
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(RealFiles(), path, kMostBytes));
  UCP_ASSIGN_OR_RETURN(journal.bytes_, journal.ReadEntries(text));
  if (journal.bytes_ < text.size() && ::ftruncate(file, static_cast<off_t>(journal.bytes_)) != 0) {
    return SystemError("write", path, errno);
  }
  UCP_RETURN_IF_ERROR(SyncFolderOf(path));
  return journal;
}

std::string DecisionJournal::PlaceOf(std::size_t entry) const { return fmt::format("`{}`: line {}", path_, entry + 1); }

llvm::Error DecisionJournal::Append(const std::vector<CoordinatorEntry>& entries) {
  std::string lines;
  for (const CoordinatorEntry& entry : entries) lines += LineOfEntry(entry);
  for (std::size_t done = 0; done < lines.size();) {
    const ssize_t written = Uninterrupted([&] {
      return ::pwrite(file_.number(), lines.data() + done, lines.size() - done, static_cast<off_t>(bytes_ + done));
    });
    if (written <= 0) {
      const int why = errno;
      [[maybe_unused]] const int cut = ::ftruncate(file_.number(), static_cast<off_t>(bytes_));
      return SystemError("write", path_, why);
    }
    done += static_cast<std::size_t>(written);
  }
  if (::fdatasync(file_.number()) != 0) return SystemError("sync", path_, errno);
  bytes_ += lines.size();
  return llvm::Error::success();
}

}  // namespace ucp
