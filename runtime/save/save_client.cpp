#include "runtime/save/save_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/comm/nodes.h"
#include "runtime/save/find_machines.h"
#include "runtime/save/replicas.h"

namespace ucp {
namespace {

constexpr auto kMostWaitForProgram = std::chrono::seconds(30);  // That rank 0 starts again.
constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr std::uint64_t kKeptReports = 64;  // Of the newest saves.

}  // namespace

llvm::Expected<std::unique_ptr<SaveClient>> SaveClient::Open(Communicator& ranks, const std::string& program,
                                                             JoinMessage join, BoxMemories memories, unsigned threads) {
  std::unique_ptr<SaveClient> client(new SaveClient(threads));
  client->join_ = std::move(join);
  client->program_ = program;
  client->memories_ = std::move(memories);
  UCP_RETURN_IF_ERROR(Agree(ranks, client->Start(ranks, program)));
  client->shared_->thread = std::thread([client = client.get()] { client->Run(); });
  return client;
}

llvm::Expected<std::unique_ptr<SaveClient>> SaveClient::OpenAt(const MeetingPlace& place, const std::string& program,
                                                               JoinMessage join, BoxMemories memories,
                                                               unsigned threads) {
  std::unique_ptr<SaveClient> client(new SaveClient(threads));
  client->join_ = std::move(join);
  client->program_ = program;
  client->address_ = place.address;
  client->memories_ = std::move(memories);
  client->lowest_rank_ = place.lowest_rank;
  if (client->join_.rank == place.lowest_rank) {
    UCP_ASSIGN_OR_RETURN(WriterProcess writer, WriterProcess::Start(program, place.address));
    client->writer_.emplace(std::move(writer));
    if (place.listener >= 0) client->machine_listener_.socket = Descriptor(::fcntl(place.listener, F_DUPFD_CLOEXEC, 0));
  }
  UCP_RETURN_IF_ERROR(client->Join());
  client->shared_->thread = std::thread([client = client.get()] { client->Run(); });
  return client;
}

llvm::Error SaveClient::Start(Communicator& ranks, const std::string& program) {
  join_.rank = ranks.rank();
  join_.ranks = ranks.size();
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ranks.AllGather(NameOfThisMachine()));
  const std::vector<int> machines = NumberNodes(names);
  const bool are_several = std::ranges::max(machines) > 0;
  const int machine = machines[static_cast<std::size_t>(join_.rank)];
  lowest_rank_ = static_cast<int>(std::ranges::find(machines, machine) - machines.begin());
  llvm::Error error = llvm::Error::success();
  if (join_.rank == lowest_rank_) error = StartWriter(program, are_several);
  UCP_RETURN_IF_ERROR(Agree(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ranks.AllGather(address_));
  address_ = addresses[static_cast<std::size_t>(lowest_rank_)];
  if (are_several) {
    UCP_ASSIGN_OR_RETURN(join_.machines, ShareMachines(ranks, machines, machine_listener_.address));
  }
  join_.comes_with_all = true;
  UCP_RETURN_IF_ERROR(Join());
  join_.comes_with_all = false;
  return llvm::Error::success();
}

llvm::Error SaveClient::StartWriter(const std::string& program, bool are_several) {
  UCP_ASSIGN_OR_RETURN(WriterProcess writer, WriterProcess::Start(program));
  address_ = writer.address();
  writer_.emplace(std::move(writer));
  if (!are_several) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(machine_listener_, ListenToMachines());
  return llvm::Error::success();
}

// The lowest rank of a machine starts the program again if it is gone, which the others wait for.
llvm::Expected<MessageSocket> SaveClient::Connect() {
  const auto until = std::chrono::steady_clock::now() + kMostWaitForProgram;
  while (true) {
    llvm::Expected<MessageSocket> socket = ConnectTo(address_);
    if (socket || std::chrono::steady_clock::now() > until) return socket;
    if (writer_ && writer_->HasEnded()) {
      llvm::consumeError(socket.takeError());
      UCP_ASSIGN_OR_RETURN(WriterProcess again, WriterProcess::Start(program_, address_));
      *writer_ = std::move(again);
      continue;
    }
    llvm::consumeError(socket.takeError());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

llvm::Error SaveClient::Join() {
  llvm::Expected<MessageSocket> socket = Connect();
  if (!socket) {
    llvm::consumeError(socket.takeError());
    return WriterIsGone();
  }
  socket_ = std::move(*socket);
  UCP_RETURN_IF_ERROR(LetWriterRead());
  UCP_RETURN_IF_ERROR(socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kJoin), Encode(join_),
                                   machine_listener_.socket.number()));
  UCP_ASSIGN_OR_RETURN(SocketMessage message, Receive());
  join_.abandoned.clear();
  return TakeLayout(message);
}

// Where a process may only read the memory of those that allow it (Yama).
llvm::Error SaveClient::LetWriterRead() {
  UCP_ASSIGN_OR_RETURN(const SocketMessage hello, Receive());
  UCP_ASSIGN_OR_RETURN(const std::uint64_t writer, DecodeNumber(hello.bytes));
  if (!join_.settings.reads_memory) return llvm::Error::success();
  ::prctl(PR_SET_PTRACER, writer, 0, 0, 0);
  join_.process = static_cast<std::uint64_t>(::getpid());
  join_.memories = memories_;
  return llvm::Error::success();
}

llvm::Error SaveClient::TakeLayout(SocketMessage& message) {
  UCP_ASSIGN_OR_RETURN(LaidOutMessage layout, DecodeLaidOut(message.bytes));
  segment_ = Segment();
  is_read_directly_ = layout.segment_bytes > 0 && !message.file.is_open();
  if (layout.segment_bytes > 0 && !is_read_directly_) {
    UCP_ASSIGN_OR_RETURN(segment_, Segment::Open(message.file.Release(), layout.segment_bytes));
  }
  std::lock_guard lock(shared_->mutex);
  shared_->layout = std::move(layout);
  return llvm::Error::success();
}

SaveClient::~SaveClient() {
  if (::getpid() != process_) {
    socket_.Forget();
    [[maybe_unused]] const Shared* kept = shared_.release();
    return;
  }
  CloseAndWait();
}

void SaveClient::CloseAndWait() {
  Close();
  if (shared_->thread.joinable()) shared_->thread.join();
  writer_.reset();
}

void SaveClient::Close() {
  std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

LaidOutMessage SaveClient::layout() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->layout;
}

std::uint64_t SaveClient::Begin(SaveCall call) {
  std::lock_guard lock(shared_->mutex);
  const std::uint64_t number = ++shared_->last_number;
  shared_->saves[number].call = std::move(call);
  shared_->queue.push_back(number);
  shared_->changed.notify_all();
  return number;
}

void SaveClient::FinishStaging(std::uint64_t number, const std::string& problem) {
  std::lock_guard lock(shared_->mutex);
  Save& save = shared_->saves.at(number);
  save.waits_for_caller = false;
  save.problem = problem;
  shared_->changed.notify_all();
}

llvm::Expected<bool> SaveClient::WaitFor(std::uint64_t number, SaveStep step, double seconds) {
  std::unique_lock lock(shared_->mutex);
  const auto found = shared_->saves.find(number);
  if (found == shared_->saves.end()) return Fail(ErrorCode::kUsage, "there is no save number {}", number);
  const Save& save = found->second;
  shared_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return save.step >= step; });
  if (save.failure) return MakeError(save.failure->code, save.failure->message);
  return save.step >= step;
}

std::string SaveClient::ReportOf(std::uint64_t number) const {
  std::lock_guard lock(shared_->mutex);
  return shared_->saves.at(number).report;
}

void SaveClient::Reach(Save& save, SaveStep step) {
  std::lock_guard lock(shared_->mutex);
  save.step = step;
  shared_->changed.notify_all();
}

void SaveClient::Run() {
  while (true) {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return shared_->is_closing || !shared_->queue.empty(); });
    if (shared_->queue.empty()) break;
    const std::uint64_t number = shared_->queue.front();
    shared_->queue.pop_front();
    Save& save = shared_->saves.at(number);  // Stays where it is.
    lock.unlock();
    llvm::Error error = RunSave(number, save);
    lock.lock();
    if (error) save.failure = TakeFailure(std::move(error));
    save.call = SaveCall();
    save.step = SaveStep::kDone;
    shared_->changed.notify_all();
  }
  if (HasWriter()) {
    llvm::consumeError(socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kLeave), ""));
    // Rank 0 is the writer's parent: it learns that it has ended.
    if (writer_) {
      llvm::consumeError(socket_.Receive().takeError());
      writer_->LastWords();
    }
  } else if (writer_) {
    writer_->End();
  }
  socket_.Close();
}

// A message that nobody has asked for is the end of the connection.
bool SaveClient::HasWriter() const {
  if (!socket_.is_open()) return false;
  pollfd wait{socket_.descriptor(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 0;
}

llvm::Error SaveClient::RunSave(std::uint64_t number, Save& save) {
  SaveMessage message;
  message.number = number;
  message.path = save.call.path;
  message.tag = save.call.tag;
  message.force = save.call.force;
  message.values = std::move(save.call.values);
  message.problem = save.call.problem;
  if (save.call.state) {
    message.has_state = true;
    message.state = *save.call.state;
    join_.state = std::move(*save.call.state);
  }
  join_.values = message.values;
  if (save.call.memories) {
    memories_ = std::move(*save.call.memories);
    if (is_read_directly_) message.memories = memories_;
  }
  UCP_ASSIGN_OR_RETURN(SocketMessage answer, Call(message));
  join_.abandoned.push_back(message.path);  // Until it is known how it has ended.
  while (true) {
    const auto kind = static_cast<SaveMessageKind>(answer.kind);
    if (kind == SaveMessageKind::kLaidOut) UCP_RETURN_IF_ERROR(TakeLayout(answer));
    if (kind == SaveMessageKind::kBegin) UCP_RETURN_IF_ERROR(Stage(number, save));
    if (kind == SaveMessageKind::kDone) break;
    UCP_ASSIGN_OR_RETURN(answer, Receive());
  }
  join_.abandoned.clear();
  UCP_ASSIGN_OR_RETURN(DoneMessage done, DecodeDone(answer.bytes));
  std::lock_guard lock(shared_->mutex);
  save.report = std::move(done.report);
  DropOldReports();
  return llvm::Error::success();
}

// Asks for a save, until the writer's first answer. A writer that dies while it waits for other ranks has done nothing:
// they find the next one, and so does this rank.
llvm::Expected<SocketMessage> SaveClient::Call(const SaveMessage& message) {
  const std::string bytes = Encode(message);
  // On several machines all writers end with one, some sooner than others.
  const auto until = std::chrono::steady_clock::now() +
                     (join_.machines.addresses.empty() ? std::chrono::seconds(0) : kMostWaitForProgram);
  for (int tries = 1;; ++tries) {
    llvm::Expected<SocketMessage> answer = CallOnce(bytes);
    const bool is_last = tries > 1 && std::chrono::steady_clock::now() > until;
    if (answer || socket_.is_open() || is_last) return answer;
    llvm::consumeError(answer.takeError());
    if (tries > 1) std::this_thread::sleep_for(kBetweenTries);
  }
}

llvm::Expected<SocketMessage> SaveClient::CallOnce(const std::string& bytes) {
  if (!HasWriter()) UCP_RETURN_IF_ERROR(Join());
  if (llvm::Error error = socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kSave), bytes)) {
    llvm::consumeError(std::move(error));
    return WriterIsGone();
  }
  return Receive();
}

// A job may save for months.
void SaveClient::DropOldReports() {
  for (auto save = shared_->saves.begin(); save != shared_->saves.end(); ++save) {
    if (save->first + kKeptReports >= shared_->last_number) break;
    if (save->second.step == SaveStep::kDone) save->second.report = "{}";
  }
}

llvm::Error SaveClient::Stage(std::uint64_t number, Save& save) {
  std::vector<StagedCopy> copies;
  bool waits = false;
  for (const StagedBox& box : shared_->layout.boxes) {  // Only this thread changes it.
    if (is_read_directly_) break;
    const BoxMemory& memory = memories_[box.entry][box.box];
    if (memory.address != nullptr) {
      copies.push_back({&memory, segment_.memory().data() + box.offset});
    } else if (box.bytes > 0) {
      waits = true;
    }
  }
  {
    std::lock_guard lock(shared_->mutex);
    save.waits_for_caller = waits;
  }
  Reach(save, SaveStep::kStaging);
  UCP_RETURN_IF_ERROR(StageBoxes(copies, {threads_, nullptr}));
  {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return !save.waits_for_caller; });
  }
  llvm::Expected<std::vector<SumLanes>> digests = DigestsOfReplicas();
  if (!digests) save.problem = TakeFailure(digests.takeError()).message;
  if (!save.problem.empty()) {
    const FailedMessage failed{number, ErrorCode::kIo, save.problem};
    llvm::consumeError(socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kFailed), Encode(failed)));
    return llvm::Error::success();  // The writer tells all ranks.
  }
  Reach(save, SaveStep::kStaged);
  const std::string staged = Encode(StagedMessage{number, std::move(*digests)});
  if (llvm::Error error = socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kStaged), staged)) {
    llvm::consumeError(std::move(error));
    return WriterIsGone();
  }
  return llvm::Error::success();
}

// Of the boxes that other ranks hold as well, if they are to be compared.
llvm::Expected<std::vector<SumLanes>> SaveClient::DigestsOfReplicas() const {
  std::vector<const BoxMemory*> boxes;
  for (const ReplicatedBox& box : shared_->layout.replicas) {  // Only this thread changes it.
    boxes.push_back(&memories_[box.entry][box.box]);
    const bool is_empty = std::ranges::find(boxes.back()->sizes, 0) != boxes.back()->sizes.end();
    if (boxes.back()->address != nullptr || is_empty) continue;
    return Fail(ErrorCode::kUnsupported, "`{}` is on a device; replicas are compared in the host's memory alone",
                join_.state[box.entry].key);
  }
  return SumsOfBoxes(boxes, {threads_, nullptr});
}

// The writer's next message; its failures are this side's.
llvm::Expected<SocketMessage> SaveClient::Receive() {
  llvm::Expected<SocketMessage> message = socket_.Receive();
  if (!message) {
    llvm::consumeError(message.takeError());
    return WriterIsGone();
  }
  if (message->kind != static_cast<std::uint64_t>(SaveMessageKind::kFailed)) return message;
  join_.abandoned.clear();
  UCP_ASSIGN_OR_RETURN(const FailedMessage failed, DecodeFailed(message->bytes));
  return MakeError(failed.code, failed.message);
}

llvm::Error SaveClient::WriterIsGone() {
  socket_.Close();
  std::string how = fmt::format("it has closed the connection; rank {} knows more", lowest_rank_);
  if (writer_) how = writer_->LastWords();
  return Fail(ErrorCode::kIo, "the process that writes the saves is gone: {}", how);
}

}  // namespace ucp
