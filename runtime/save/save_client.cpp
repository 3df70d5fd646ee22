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

bool IsReadable(int descriptor) {
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, 0) != 0;
}

}  // namespace

llvm::Expected<std::unique_ptr<SaveClient>> SaveClient::Open(Communicator& ranks, const std::string& program,
                                                             JoinMessage join, BoxMemories memories, unsigned threads) {
  std::unique_ptr<SaveClient> client(new SaveClient(threads));
  client->join_ = std::move(join);
  client->program_ = program;
  client->memories_ = std::move(memories);
  UCP_RETURN_IF_ERROR(Agree(ranks, client->shared_->queue.Open()));
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
  UCP_RETURN_IF_ERROR(client->shared_->queue.Open());
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
  llvm::Expected<SocketMessage> message = Receive();
  if (!message) return message.takeError();
  join_.abandoned.clear();
  return TakeLayout(*message);
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
    UCP_ASSIGN_OR_RETURN(segment_, Segment::Open(message.file.Release(), layout.segment_bytes, join_.settings.rooms));
  }
  std::lock_guard lock(shared_->mutex);
  shared_->layout = std::move(layout);
  shared_->room = 0;
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

void SaveClient::Close() { shared_->queue.Close(); }

LaidOutMessage SaveClient::layout() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->layout;
}

std::size_t SaveClient::room() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->room;
}

std::uint64_t SaveClient::Begin(SaveCall call) { return shared_->queue.Add(std::move(call)); }

void SaveClient::FinishStaging(std::uint64_t number, const std::string& problem) {
  shared_->queue.FinishStaging(number, problem);
}

llvm::Expected<bool> SaveClient::WaitFor(std::uint64_t number, SaveStep step, double seconds) {
  return shared_->queue.WaitFor(number, step, seconds);
}

llvm::Expected<bool> SaveClient::WaitForWave(std::uint64_t number, std::uint64_t wave, double seconds) {
  return shared_->queue.WaitForWave(number, wave, seconds);
}

std::string SaveClient::ReportOf(std::uint64_t number) const { return shared_->queue.ReportOf(number); }

void SaveClient::Run() {
  while (std::optional<SaveQueue::Taken> save = NextSave()) {
    const std::string path = save->call.path;
    llvm::Error error = RunSave(save->number, std::move(save->call));
    if (!error) continue;
    if (!socket_.is_open()) join_.abandoned.push_back(path);
    shared_->queue.Fail(save->number, TakeFailure(std::move(error)));
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

// Waits for it, and hears meanwhile how those in flight end. Nothing: the queue is closed, and all have ended.
std::optional<SaveQueue::Taken> SaveClient::NextSave() {
  SaveQueue& queue = shared_->queue;
  while (true) {
    if (in_flight_.size() < join_.settings.rooms) {
      if (std::optional<SaveQueue::Taken> next = queue.Take()) return next;
    }
    if (in_flight_.empty() && queue.is_closed()) return std::nullopt;
    pollfd waits[] = {{queue.news(), POLLIN, 0}, {in_flight_.empty() ? -1 : socket_.descriptor(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    queue.ClearNews();
    if (waits[1].revents != 0) HearOfEnd();
  }
}

// Of one in flight. A message about anything else is the end of the connection.
void SaveClient::HearOfEnd() {
  llvm::Expected<SocketMessage> message = ReceiveAny();
  if (message && !NoteEnd(*message)) llvm::consumeError(WriterIsGone());
  llvm::consumeError(message.takeError());
}

// Whether the message says how one in flight has ended.
bool SaveClient::NoteEnd(const SocketMessage& message) {
  std::optional<EndOfSave> end = DecodeEnd(message.kind, message.bytes);
  if (!end) return false;
  const auto ended = std::ranges::find(in_flight_, end->number, &InFlight::number);
  if (ended == in_flight_.end()) return false;
  in_flight_.erase(ended);
  if (end->failure) {
    shared_->queue.Fail(end->number, std::move(*end->failure));
  } else {
    shared_->queue.Finish(end->number, std::move(end->report));
  }
  return true;
}

// A message that nobody has asked for is the end of the connection.
bool SaveClient::HasWriter() {
  while (socket_.is_open() && IsReadable(socket_.descriptor())) {
    if (in_flight_.empty()) {
      socket_.Close();
    } else {
      HearOfEnd();
    }
  }
  return socket_.is_open();
}

// Until this rank has staged it.
llvm::Error SaveClient::RunSave(std::uint64_t number, SaveCall call) {
  SaveMessage message;
  message.number = number;
  message.path = call.path;
  message.tag = call.tag;
  message.force = call.force;
  message.values = std::move(call.values);
  message.problem = call.problem;
  if (call.state) {
    message.has_state = true;
    message.state = *call.state;
    join_.state = std::move(*call.state);
  }
  join_.values = message.values;
  if (call.memories) {
    memories_ = std::move(*call.memories);
    if (is_read_directly_) message.memories = memories_;
  }
  UCP_ASSIGN_OR_RETURN(SocketMessage answer, Call(message));
  while (answer.kind != static_cast<std::uint64_t>(SaveMessageKind::kBegin)) {
    if (answer.kind == static_cast<std::uint64_t>(SaveMessageKind::kLaidOut)) UCP_RETURN_IF_ERROR(TakeLayout(answer));
    UCP_ASSIGN_OR_RETURN(answer, Receive());
  }
  while (true) {
    UCP_ASSIGN_OR_RETURN(const BeginMessage begin, DecodeBegin(answer.bytes));
    UCP_ASSIGN_OR_RETURN(const bool goes_on, Stage({number, begin.room, begin.wave}, call.path));
    if (!goes_on) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(answer, Receive());
  }
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

// Returns whether another wave follows. Otherwise the save is in flight.
llvm::Expected<bool> SaveClient::Stage(const BeginMessage& begin, const std::string& path) {
  const LaidOutMessage& layout = shared_->layout;
  std::vector<StagedCopy> copies;
  bool waits = false;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->room = begin.room;
  }
  for (const StagedBox& box : layout.boxes) {
    if (is_read_directly_ || box.bytes == 0) continue;
    const BoxMemory& memory = memories_[box.entry][box.box];
    waits = waits || memory.address == nullptr;  // In each wave, whatever the caller has for it.
    if (memory.address == nullptr || layout.waves.WaveOf(box.offset) != begin.wave) continue;
    copies.push_back({&memory, segment_.room(begin.room).data() + layout.waves.PlaceOf(box.offset)});
  }
  shared_->queue.BeginStaging(begin.number, begin.wave, waits);
  UCP_RETURN_IF_ERROR(StageBoxes(copies, {threads_, nullptr}));
  std::string problem = shared_->queue.WaitForCaller(begin.number);
  llvm::Expected<std::vector<SumLanes>> digests = std::vector<SumLanes>();
  if (begin.wave == 0) digests = SumsOfReplicas(layout.replicas, join_.state, memories_, {threads_, nullptr});
  if (!digests) problem = TakeFailure(digests.takeError()).message;
  const bool goes_on = problem.empty() && begin.wave + 1 < layout.waves.count;
  llvm::Error error = llvm::Error::success();
  if (problem.empty()) {
    error = socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kStaged),
                         Encode(StagedMessage{begin.number, std::move(*digests)}));
    if (!goes_on) shared_->queue.HasStaged(begin.number);  // From now on the rank may end: the message is sent.
  } else {
    // The writer tells all ranks.
    error = socket_.Send(static_cast<std::uint64_t>(SaveMessageKind::kFailed),
                         Encode(FailedMessage{begin.number, ErrorCode::kIo, problem}));
  }
  if (!goes_on) in_flight_.push_back({begin.number, path});
  if (!error) return goes_on;
  llvm::consumeError(std::move(error));
  llvm::Error gone = WriterIsGone();
  if (goes_on) return gone;
  llvm::consumeError(std::move(gone));  // All in flight have failed.
  return false;
}

// The writer's next message that is not about one in flight; its failures are this side's.
llvm::Expected<SocketMessage> SaveClient::Receive() {
  while (true) {
    UCP_ASSIGN_OR_RETURN(SocketMessage message, ReceiveAny());
    if (NoteEnd(message)) continue;
    if (message.kind != static_cast<std::uint64_t>(SaveMessageKind::kFailed)) return message;
    UCP_ASSIGN_OR_RETURN(const FailedMessage failed, DecodeFailed(message.bytes));
    return MakeError(failed.code, failed.message);
  }
}

llvm::Expected<SocketMessage> SaveClient::ReceiveAny() {
  llvm::Expected<SocketMessage> message = socket_.Receive();
  if (message) return message;
  llvm::consumeError(message.takeError());
  return WriterIsGone();
}

// All saves in flight fail.
llvm::Error SaveClient::WriterIsGone() {
  socket_.Close();
  std::string how = fmt::format("it has closed the connection; rank {} knows more", lowest_rank_);
  if (writer_) how = writer_->LastWords();
  const FailureText failure{ErrorCode::kIo, "the process that writes the saves is gone: " + how};
  for (InFlight& save : in_flight_) {
    join_.abandoned.push_back(std::move(save.path));
    shared_->queue.Fail(save.number, failure);
  }
  in_flight_.clear();
  return MakeError(failure.code, failure.message);
}

}  // namespace ucp
