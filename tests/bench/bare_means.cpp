// bare_means FILE [MIB [ROUNDS]]: what each means of input and output moves in a second, with nothing done to the
// bytes: positioned calls through the page cache and past it, and past it with four times as much on the way: by
// io_uring, and by four times as many threads. Else two threads; pieces of 2 MiB, writes with the sync behind them,
// reads of what is not in the page cache. FILE is made and removed; rounds in turn, medians at the end.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr unsigned kThreads = 2;
constexpr unsigned kDepth = 4;

using Clock = std::chrono::steady_clock;

void Require(bool is_so, const char* what) {
  if (is_so) return;
  std::perror(what);
  std::exit(1);
}

// The least of io_uring that moves pieces: a queue of requests, one of answers, both shared with the system.
class Ring {
 public:
  explicit Ring(unsigned depth) {
    io_uring_params parameters{};
    descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &parameters));
    Require(descriptor_ >= 0, "io_uring_setup");
    const std::size_t bytes = std::max(parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned),
                                       parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
    auto* queues = static_cast<std::byte*>(Map(bytes, IORING_OFF_SQ_RING));
    requests_ = static_cast<io_uring_sqe*>(Map(parameters.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    tail_ = Number(queues, parameters.sq_off.tail);
    mask_ = *Number(queues, parameters.sq_off.ring_mask);
    order_ = Number(queues, parameters.sq_off.array);
    answer_head_ = Number(queues, parameters.cq_off.head);
    answer_tail_ = Number(queues, parameters.cq_off.tail);
    answer_mask_ = *Number(queues, parameters.cq_off.ring_mask);
    answers_ = reinterpret_cast<io_uring_cqe*>(queues + parameters.cq_off.cqes);
  }
  ~Ring() { ::close(descriptor_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void Ask(bool writes, int file, std::byte* memory, std::uint64_t offset, unsigned slot) {
    const unsigned tail = *tail_;
    io_uring_sqe& request = requests_[tail & mask_];
    std::memset(&request, 0, sizeof request);
    request.opcode = writes ? IORING_OP_WRITE : IORING_OP_READ;
    request.fd = file;
    request.addr = reinterpret_cast<std::uintptr_t>(memory);
    request.len = kPiece;
    request.off = offset;
    request.user_data = slot;
    order_[tail & mask_] = tail & mask_;
    std::atomic_ref(*tail_).store(tail + 1, std::memory_order_release);
    Require(::syscall(SYS_io_uring_enter, descriptor_, 1, 0, 0, nullptr, 0) == 1, "io_uring_enter");
  }

  // The slot of a piece that was moved.
  unsigned Wait() {
    const unsigned head = *answer_head_;
    while (std::atomic_ref(*answer_tail_).load(std::memory_order_acquire) == head) {
      Require(::syscall(SYS_io_uring_enter, descriptor_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0) >= 0, "waiting");
    }
    const io_uring_cqe answer = answers_[head & answer_mask_];
    std::atomic_ref(*answer_head_).store(head + 1, std::memory_order_release);
    Require(answer.res == static_cast<int>(kPiece), "a piece");
    return static_cast<unsigned>(answer.user_data);
  }

 private:
  void* Map(std::size_t bytes, std::uint64_t what) const {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_,
                          static_cast<off_t>(what));
    Require(memory != MAP_FAILED, "mmap");
    return memory;
  }
  static unsigned* Number(std::byte* queues, unsigned offset) { return reinterpret_cast<unsigned*>(queues + offset); }

  int descriptor_;
  io_uring_sqe* requests_;
  unsigned *tail_, *order_, *answer_head_, *answer_tail_;
  unsigned mask_, answer_mask_;
  io_uring_cqe* answers_;
};

struct Work {
  bool writes;
  int file;
  std::uint64_t first, last;  // Pieces.
  std::byte* memory;          // kDepth pieces.
};

void ByCalls(const Work& work) {
  for (std::uint64_t piece = work.first; piece < work.last; ++piece) {
    const auto offset = static_cast<off_t>(piece * kPiece);
    const ssize_t count = work.writes ? ::pwrite(work.file, work.memory, kPiece, offset)
                                      : ::pread(work.file, work.memory, kPiece, offset);
    Require(count == static_cast<ssize_t>(kPiece), "a piece");
  }
}

void ByRing(const Work& work) {
  Ring ring(kDepth);
  std::uint64_t next = work.first;
  unsigned on_the_way = 0;
  auto ask = [&](unsigned slot) {
    ring.Ask(work.writes, work.file, work.memory + slot * kPiece, next++ * kPiece, slot);
    ++on_the_way;
  };
  for (unsigned slot = 0; slot < kDepth && next < work.last; ++slot) ask(slot);
  while (on_the_way > 0) {
    const unsigned slot = ring.Wait();
    --on_the_way;
    if (next < work.last) ask(slot);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const std::string path = argv[1];
  const std::uint64_t pieces = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512) / 2;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const int buffered = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
  const int direct = ::open(path.c_str(), O_RDWR | O_DIRECT);
  Require(buffered >= 0 && direct >= 0, path.c_str());
  ::unlink(path.c_str());
  const std::size_t bytes = kThreads * kDepth * kPiece;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(std::rand());

  struct Way {
    const char* name;
    int file;
    unsigned threads;
    unsigned depth;
    void (*move)(const Work&);
  };
  const Way ways[] = {{"page cache", buffered, kThreads, 1, ByCalls},
                      {"direct", direct, kThreads, 1, ByCalls},
                      {"direct, 8 threads", direct, kThreads * kDepth, 1, ByCalls},
                      {"io_uring", direct, kThreads, kDepth, ByRing}};
  std::map<std::string, std::vector<double>> rates;
  for (int round = 0; round < rounds; ++round) {
    for (const bool writes : {true, false}) {
      for (const Way& way : ways) {
        if (writes) {
          Require(
              ::ftruncate(buffered, 0) == 0 && ::fallocate(buffered, 0, 0, static_cast<off_t>(pieces * kPiece)) == 0,
              "fallocate");
        }
        Require(::fsync(buffered) == 0, "fsync");
        Require(::posix_fadvise(buffered, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
        const Clock::time_point start = Clock::now();
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < way.threads; ++t) {
          threads.emplace_back(way.move, Work{writes, way.file, pieces * t / way.threads,
                                              pieces * (t + 1) / way.threads, memory + t * way.depth * kPiece});
        }
        for (std::thread& thread : threads) thread.join();
        if (writes) Require(::fsync(buffered) == 0, "fsync");
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        rates[std::string(writes ? "write, " : "read, ") + way.name].push_back(static_cast<double>(pieces * kPiece) /
                                                                               seconds / 1e9);
      }
    }
  }
  for (auto& [name, of_rounds] : rates) {
    std::sort(of_rounds.begin(), of_rounds.end());
    std::printf("%-26s %6.2f GB/s (%.2f to %.2f)\n", name.c_str(), of_rounds[of_rounds.size() / 2], of_rounds.front(),
                of_rounds.back());
  }
  std::free(memory);
  return 0;
}
