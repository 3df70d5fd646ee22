// Messages between two ends of a socket.
#include "runtime/comm/message_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "compiler/support/error.h"

namespace ucp {
namespace {

std::pair<MessageSocket, MessageSocket> Pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {MessageSocket(Descriptor(ends[0])), MessageSocket(Descriptor(ends[1]))};
}

TEST(MessageSocketTest, AFileGoesAlong) {
  auto [a, b] = Pair();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  ASSERT_FALSE(static_cast<bool>(a.Send(3, "hello", pipe[1])));
  ASSERT_FALSE(static_cast<bool>(a.Send(4, "")));
  ::close(pipe[1]);
  llvm::Expected<SocketMessage> first = b.Receive();
  ASSERT_TRUE(static_cast<bool>(first));
  EXPECT_EQ(first->kind, 3U);
  EXPECT_EQ(first->bytes, "hello");
  ASSERT_TRUE(first->file.is_open());
  EXPECT_EQ(::write(first->file.number(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  ::close(pipe[0]);
  llvm::Expected<SocketMessage> second = b.Receive();
  ASSERT_TRUE(static_cast<bool>(second));
  EXPECT_EQ(second->kind, 4U);
  EXPECT_FALSE(second->file.is_open());
}

TEST(MessageSocketTest, LargeOnes) {
  auto ends = Pair();
  std::string text;
  text.resize(50'000'000, 'y');
  std::thread sender([&] { llvm::consumeError(ends.first.Send(1, text)); });
  llvm::Expected<SocketMessage> message = ends.second.Receive();
  sender.join();
  ASSERT_TRUE(static_cast<bool>(message));
  EXPECT_EQ(message->bytes, text);
}

TEST(MessageSocketTest, TheOtherSideHasGone) {
  auto [a, b] = Pair();
  a.Close();
  llvm::Expected<SocketMessage> message = b.Receive();
  ASSERT_FALSE(static_cast<bool>(message));
  EXPECT_EQ(TakeFailure(message.takeError()).code, ErrorCode::kIo);
  EXPECT_EQ(TakeFailure(b.Send(1, "x")).code, ErrorCode::kIo);
}

TEST(MessageSocketTest, ABegunMessageIsNotWaitedForEndlessly) {
  auto [a, b] = Pair();
  ASSERT_FALSE(static_cast<bool>(b.LimitWaiting(0.05)));
  ASSERT_EQ(::send(a.descriptor(), "1234", 4, 0), 4);
  llvm::Expected<SocketMessage> message = b.Receive();
  ASSERT_FALSE(static_cast<bool>(message));
  EXPECT_EQ(TakeFailure(message.takeError()).code, ErrorCode::kIo);
}

TEST(MessageSocketTest, AMessageThatClaimsTooMuch) {
  auto [a, b] = Pair();
  const std::array<std::uint64_t, 2> head = {1, std::uint64_t{1} << 60};
  ASSERT_EQ(::send(a.descriptor(), head.data(), sizeof head, 0), static_cast<ssize_t>(sizeof head));
  llvm::Expected<SocketMessage> message = b.Receive();
  ASSERT_FALSE(static_cast<bool>(message));
  llvm::consumeError(message.takeError());
}

TEST(MessageSocketTest, ListensUnderANameOfItsOwn) {
  llvm::Expected<Listener> one = Listen();
  llvm::Expected<Listener> two = Listen();
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->address, two->address);
  llvm::Expected<MessageSocket> here = ConnectTo(one->address);
  ASSERT_TRUE(static_cast<bool>(here));
  llvm::Expected<MessageSocket> there = AcceptOwn(one->socket.number());
  ASSERT_TRUE(static_cast<bool>(there));
  ASSERT_FALSE(static_cast<bool>(here->Send(9, "z")));
  EXPECT_EQ(there->Receive()->bytes, "z");
  EXPECT_FALSE(static_cast<bool>(ConnectTo("ucp-writer-of-nobody")) || false);
}

TEST(MessageSocketTest, TheOtherSideHasEnded) {
  llvm::Expected<Listener> listener = Listen();
  ASSERT_TRUE(static_cast<bool>(listener));
  llvm::Expected<MessageSocket> a = ConnectTo(listener->address);
  llvm::Expected<MessageSocket> b = AcceptOwn(listener->socket.number());
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(b->HasEnded());
  ASSERT_FALSE(static_cast<bool>(a->Send(1, "text")));
  a->Close();
  EXPECT_FALSE(b->HasEnded());  // There is something to receive.
  ASSERT_TRUE(static_cast<bool>(b->Receive()));
  EXPECT_TRUE(b->HasEnded());
}

}  // namespace
}  // namespace ucp
