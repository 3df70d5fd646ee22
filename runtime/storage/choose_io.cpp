// In each round every thread moves a stretch in the one way and then a stretch in the other, at places that alternate
// over all there is; which way is first alternates too. So whatever changes meanwhile, and whatever part of the source
// is in the page cache, is the same for both. A stretch that is read is as long as what a system reads ahead several
// times: of a short one, read ahead in vain, the page cache would pay the whole and show none of the gain. The first
// round begins past the page cache, since what is still being read ahead when a stretch ends is paid by who comes next.
#include "runtime/storage/choose_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/units.h"
#include "runtime/storage/direct_file.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMostThreads = 4;
constexpr std::uint64_t kRounds = 4;     // At most.
constexpr std::uint64_t kLooks = 16;     // Places at which the page cache is asked for.
constexpr std::uint64_t kTriedPart = 4;  // Of what is to be read, at most.
constexpr const char* kTrialName = ".ucp-trial";

enum Way : std::size_t { kBuffered, kDirect };

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t(kDirectBlockBytes)); }
};

unsigned ThreadsOf(const TrialOptions& options) {
  return std::clamp<unsigned>(static_cast<unsigned>(options.memory_bytes / 4 / options.piece_bytes), 1,
                              std::clamp(options.threads, 1U, kMostThreads));
}

// Common parts of both trials.
class Trial {
 public:
  // A thread moves a stretch of so many bytes, by pieces, in each way and round.
  Trial(const TrialOptions& options, std::uint64_t stretch_bytes, std::uint64_t rounds, double least_gain)
      : options_(options),
        least_gain_(least_gain),
        threads_(ThreadsOf(options)),
        stretch_bytes_(stretch_bytes),
        rounds_(rounds),
        memory_(static_cast<std::byte*>(
            ::operator new[](threads_ * options.piece_bytes, std::align_val_t(kDirectBlockBytes)))) {
    // Nothing that a disk can leave out or make small.
    std::uint64_t state = 0x9E3779B97F4A7C15;
    for (std::uint64_t at = 0; at + sizeof(state) <= threads_ * options.piece_bytes; at += sizeof(state)) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      std::memcpy(memory_.get() + at, &state, sizeof(state));
    }
  }
  virtual ~Trial() = default;

  // Of all rounds of both ways.
  std::uint64_t most_stretches() const { return 2 * rounds_ * threads_; }

  llvm::Expected<IoChoice> Run() {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (const Way way : {round % 2 == 0 ? kDirect : kBuffered, round % 2 == 0 ? kBuffered : kDirect}) {
        UCP_RETURN_IF_ERROR(Move(way, round));
      }
      if (Seconds(start) > options_.seconds) break;
    }
    return Choice();
  }

 protected:
  std::uint64_t piece_bytes() const { return options_.piece_bytes; }
  std::uint64_t stretch_bytes() const { return stretch_bytes_; }
  // Stretch `number` of most_stretches(). The memory is for a piece of it.
  virtual llvm::Error MoveStretch(Way way, std::uint64_t number, std::span<std::byte> memory) = 0;
  // Until it is where it is to be.
  virtual llvm::Error End(Way) { return llvm::Error::success(); }

 private:
  static double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

  llvm::Error Move(Way way, std::uint64_t round) {
    const Clock::time_point start = Clock::now();
    auto move = [&](unsigned thread, std::uint64_t item) {
      return MoveStretch(way, 2 * (round * threads_ + item) + way,
                         {memory_.get() + thread * piece_bytes(), static_cast<std::size_t>(piece_bytes())});
    };
    UCP_RETURN_IF_ERROR(ForEachInParallel(threads_, {threads_, options_.cancelled}, move));
    UCP_RETURN_IF_ERROR(End(way));
    seconds_[way] += Seconds(start);
    bytes_[way] += threads_ * stretch_bytes_;
    return llvm::Error::success();
  }

  IoChoice Choice() const {
    IoChoice choice;
    choice.buffered_bytes_per_second = static_cast<double>(bytes_[kBuffered]) / seconds_[kBuffered];
    choice.direct_bytes_per_second = static_cast<double>(bytes_[kDirect]) / seconds_[kDirect];
    choice.directly = choice.direct_bytes_per_second >= least_gain_ * choice.buffered_bytes_per_second;
    auto rate = [](double bytes_per_second) { return HumanBytes(static_cast<std::uint64_t>(bytes_per_second)) + "/s"; };
    const std::string past = rate(choice.direct_bytes_per_second) + " past the page cache";
    const std::string through = rate(choice.buffered_bytes_per_second) + " through it";
    choice.reason =
        fmt::format("a trial of {} gave {} and {}", HumanBytes(bytes_[kBuffered] + bytes_[kDirect]), past, through);
    return choice;
  }

  const TrialOptions& options_;
  const double least_gain_;
  const unsigned threads_;
  const std::uint64_t stretch_bytes_;
  const std::uint64_t rounds_;
  const std::unique_ptr<std::byte[], AlignedDelete> memory_;
  std::array<double, 2> seconds_ = {};
  std::array<std::uint64_t, 2> bytes_ = {};
};

// Past the page cache there is nothing, or no way.
std::optional<std::string> WhyNot(const DirectDescriptor& direct) {
  if (const std::optional<std::string> refusal = direct.refusal()) {
    return "past the page cache the system refuses (" + *refusal + ")";
  }
  if (direct.is_in_memory()) return "they are in memory";
  return std::nullopt;
}

// Whether the system says that it has the pages, which it always does of other users' files; and whether a read that
// may not wait for the device gets something, for which the device is also asked, and a fast one can have answered
// before the read looks.
bool IsInPageCache(const Descriptor& file, std::uint64_t offset) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto page_begin = static_cast<off_t>(offset / page_bytes * page_bytes);
  void* const page = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file.number(), page_begin);
  if (page == MAP_FAILED) return false;
  unsigned char is_there = 0;
  const bool is_known = ::mincore(page, page_bytes, &is_there) == 0;
  ::munmap(page, page_bytes);
  if (is_known && (is_there & 1) == 0) return false;
  std::byte byte{};
  const iovec into{&byte, 1};
  return Uninterrupted([&] { return ::preadv2(file.number(), &into, 1, static_cast<off_t>(offset), RWF_NOWAIT); }) == 1;
}

struct Place {
  std::size_t file = 0;
  std::uint64_t offset = 0;
};

// `count` stretches that share no byte, evenly over the files that hold one; none if there is no room for all.
std::vector<Place> SpreadOver(const std::vector<FileToRead>& files, std::uint64_t count, std::uint64_t stretch_bytes) {
  std::uint64_t all = 0;
  for (const FileToRead& file : files) all += file.bytes / stretch_bytes;
  std::vector<Place> places;
  if (all < count) return places;
  std::uint64_t before = 0;
  for (std::size_t number = 0; number < files.size(); ++number) {
    const std::uint64_t stretches = files[number].bytes / stretch_bytes;
    for (; places.size() < count && all * places.size() / count < before + stretches;) {
      places.push_back({number, (all * places.size() / count - before) * stretch_bytes});
    }
    before += stretches;
  }
  return places;
}

class ReadingTrial : public Trial {
 public:
  ReadingTrial(FileSystem& files, const std::vector<FileToRead>& to_read, std::uint64_t rounds,
               const TrialOptions& options)
      : Trial(options, options.stretch_bytes, rounds, kLeastGainOfReading),
        files_(files),
        to_read_(to_read),
        places_(SpreadOver(to_read, most_stretches(), stretch_bytes())) {}

  bool is_possible() const { return !places_.empty(); }

  llvm::Expected<std::optional<std::string>> WhyNotDirectly() const {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(PathOf(0)));
    const DirectReadableFile direct(std::move(file));
    (void)direct.direct().Number();
    std::optional<std::string> why_not = WhyNot(direct.direct());
    if (!why_not && AreInPageCache()) why_not = "the system has them in memory already";
    return why_not;
  }

 private:
  bool AreInPageCache() const {
    const std::vector<Place> looks = SpreadOver(to_read_, kLooks, piece_bytes());
    return !looks.empty() && std::all_of(looks.begin(), looks.end(), [&](const Place& place) {
      const Descriptor file = OpenDescriptor(to_read_[place.file].path, O_RDONLY);
      return file.is_open() && IsInPageCache(file, place.offset + piece_bytes() / 2);
    });
  }

  const std::string& PathOf(std::uint64_t place) const { return to_read_[places_[place].file].path; }

  llvm::Error MoveStretch(Way way, std::uint64_t number, std::span<std::byte> memory) override {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(PathOf(number)));
    if (way == kDirect) file = std::make_unique<DirectReadableFile>(std::move(file));
    for (std::uint64_t done = 0; done < stretch_bytes(); done += memory.size()) {
      UCP_RETURN_IF_ERROR(file->ReadAt(places_[number].offset + done, memory));
    }
    return llvm::Error::success();
  }

  FileSystem& files_;
  const std::vector<FileToRead>& to_read_;
  const std::vector<Place> places_;
};

class WritingTrial : public Trial {
 public:
  WritingTrial(FileSystem& files, std::string path, const TrialOptions& options)
      : Trial(options, options.piece_bytes, kRounds, kLeastGainOfWriting), files_(files), path_(std::move(path)) {}

  // Afterwards the file is there.
  llvm::Expected<std::optional<std::string>> Begin() {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> made,
                         files_.CreateForWriting(path_, most_stretches() * stretch_bytes()));
    UCP_RETURN_IF_ERROR(made->Close());
    UCP_ASSIGN_OR_RETURN(buffered_, files_.OpenForWriting(path_));
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> below, files_.OpenForWriting(path_));
    direct_ = std::make_unique<DirectWritableFile>(std::move(below), path_);
    (void)direct_->direct().Number();
    return WhyNot(direct_->direct());
  }

 private:
  llvm::Error MoveStretch(Way way, std::uint64_t number, std::span<std::byte> memory) override {
    WritableFile& file = way == kDirect ? *direct_ : *buffered_;
    UCP_RETURN_IF_ERROR(file.WriteAt(number * piece_bytes(), memory));
    file.StartWriteback(number * piece_bytes(), memory.size());
    return llvm::Error::success();
  }
  llvm::Error End(Way way) override { return way == kDirect ? direct_->Sync() : buffered_->Sync(); }

  FileSystem& files_;
  const std::string path_;
  std::unique_ptr<WritableFile> buffered_;
  std::unique_ptr<DirectWritableFile> direct_;
};

IoChoice Buffered(std::string reason) { return {false, std::move(reason), 0, 0}; }

template <typename SomeTrial>
IoChoice Outcome(SomeTrial& trial, llvm::Expected<std::optional<std::string>> why_not) {
  llvm::Error error = why_not.takeError();
  if (!error && *why_not) return Buffered(**why_not);
  if (!error) {
    llvm::Expected<IoChoice> choice = trial.Run();
    if (choice) return *choice;
    error = choice.takeError();
  }
  return Buffered("it could not be tried: " + TakeFailure(std::move(error)).message);
}

std::string TooFew(std::uint64_t bytes) { return fmt::format("{} are too few for a trial to pay", HumanBytes(bytes)); }

}  // namespace

IoChoice ChooseReading(FileSystem& files, const std::vector<FileToRead>& to_read, std::uint64_t bytes,
                       const TrialOptions& options) {
  const std::uint64_t round_bytes = std::uint64_t{2} * ThreadsOf(options) * options.stretch_bytes;
  const std::uint64_t rounds = std::min(kRounds, bytes / kTriedPart / round_bytes);
  if (rounds == 0) return Buffered(TooFew(bytes));
  ReadingTrial trial(files, to_read, rounds, options);
  if (!trial.is_possible()) return Buffered("they are small");
  return Outcome(trial, trial.WhyNotDirectly());
}

llvm::Expected<IoChoice> ChooseWriting(FileSystem& files, const std::string& folder, std::uint64_t bytes,
                                       const TrialOptions& options) {
  if (bytes < options.least_bytes) return Buffered(TooFew(bytes));
  IoChoice choice;
  {
    WritingTrial trial(files, JoinPath(folder, kTrialName), options);
    choice = Outcome(trial, trial.Begin());
  }
  UCP_RETURN_IF_ERROR(RemoveTrial(files, folder));
  return choice;
}

llvm::Error RemoveTrial(FileSystem& files, const std::string& folder) {
  return files.RemoveTree(JoinPath(folder, kTrialName));
}

}  // namespace ucp
