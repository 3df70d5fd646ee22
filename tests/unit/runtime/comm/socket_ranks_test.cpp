// Ranks over sockets: one that goes, and the parties that may connect. The duties of every communicator are tested in
// suite_test.cpp and message_test.cpp.
#include "runtime/comm/socket_ranks.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/comm/connect_machines.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/tcp.h"
#include "tests/unit/runtime/comm/denied_call.h"
#include "tests/unit/runtime/comm/ranks_of_sockets.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

std::string TextOf(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : ""; }

TEST(SocketRanksTest, ARankThatGoesIsNamed) {
  OnSocketRanks(2, [](SocketRanks& ranks) {
    if (ranks.rank() == 1) return;
    llvm::cantFail(ranks.AllGather("").takeError());  // The one that rank 1 makes at its end.
    EXPECT_THAT(TextOf(ranks.AllGather("more").takeError()), HasSubstr("rank 1 of 2 "));
    std::byte buffer[4];
    EXPECT_THAT(TextOf(ranks.Receive(1, 7, buffer)), HasSubstr("rank 1 of 2 is gone: "));
  });
}

TEST(SocketRanksTest, WhatWasAskedForIsForgotten) {
  OnSocketRanks(2, [](SocketRanks& ranks) {
    for (int asking = 0; asking < 2; ++asking) {
      llvm::cantFail(ranks.AllGather("").takeError());
      if (ranks.rank() == asking) ranks.AskToStop();
      llvm::cantFail(ranks.AllGather("").takeError());
      EXPECT_EQ(ranks.IsAskedToStop(), ranks.rank() != asking);
      ranks.ForgetStop();
    }
    llvm::cantFail(ranks.AllGather("").takeError());
    EXPECT_FALSE(ranks.IsAskedToStop());
  });
}

TEST(SocketRanksTest, AMessageOfAnotherLength) {
  OnSocketRanks(2, [](SocketRanks& ranks) {
    std::byte buffer[8] = {};
    if (ranks.rank() == 0) llvm::cantFail(ranks.Send(1, 3, std::span(buffer).first(5)));
    if (ranks.rank() == 1) {
      EXPECT_EQ(TextOf(ranks.Receive(0, 3, buffer)), "rank 0 of 2 has sent 5 bytes where 8 were expected");
    }
  });
}

struct Connection {
  std::string client_error;
  std::string server_error;
  Purpose purpose;
};

Connection Connect(const std::string& secret_of_client, const std::string& secret_of_server) {
  MachineListener listener = llvm::cantFail(ListenToMachines());
  Connection connection;
  std::thread server([&] {
    llvm::Expected<AcceptedMachine> accepted =
        AcceptMachine(llvm::cantFail(AcceptTcp(listener.socket.number())), secret_of_server);
    if (accepted) connection.purpose = accepted->purpose;
    connection.server_error = TextOf(accepted.takeError());
    listener.socket = Descriptor(-1);
  });
  connection.client_error = TextOf(ConnectToMachine(listener.address, secret_of_client, {5, 7}, 0).takeError());
  server.join();
  return connection;
}

TEST(MachineSocketTest, BothSidesKnowTheSecret) {
  const std::string secret = llvm::cantFail(NewSecret());
  const Connection connection = Connect(secret, secret);
  EXPECT_EQ(connection.client_error, "");
  EXPECT_EQ(connection.server_error, "");
  EXPECT_EQ(connection.purpose.kind, 5U);
  EXPECT_EQ(connection.purpose.number, 7U);
}

TEST(MachineSocketTest, AnotherSecretIsOfNoUse) {
  const std::string secret = llvm::cantFail(NewSecret());
  EXPECT_NE(secret, llvm::cantFail(NewSecret()));
  const Connection connection = Connect(secret, llvm::cantFail(NewSecret()));
  EXPECT_THAT(connection.client_error, HasSubstr("another machine of the job cannot be reached ("));
  EXPECT_THAT(connection.client_error, HasSubstr("the other side is not a part of this job"));
  EXPECT_NE(connection.server_error, "");
}

TEST(MachineSocketTest, ACallerThatSpeaksOfOtherThings) {
  MachineListener listener = llvm::cantFail(ListenToMachines());
  const std::string secret = llvm::cantFail(NewSecret());
  std::string error;
  std::thread server(
      [&] { error = TextOf(AcceptMachine(llvm::cantFail(AcceptTcp(listener.socket.number())), secret).takeError()); });
  {
    // A client that knows nothing: it says as much as a web browser would.
    const Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(listener.address)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(other.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const char text[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    ASSERT_GT(::send(other.number(), text, sizeof text, MSG_NOSIGNAL), 0);
  }
  server.join();
  EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("is not one of ucp"), HasSubstr("closed")));
}

// It waits on at the listener, so nothing but the error ends the waiting.
TEST(ConnectMachinesTest, ACallerThatCannotBeTaken) {
  const MachineListener listener = llvm::cantFail(ListenToMachines());
  const Descriptor caller = llvm::cantFail(ConnectTcp("127.0.0.1", std::to_string(std::stoi(listener.address))));
  const std::string secret = llvm::cantFail(NewSecret());
  std::string error;
  std::thread([&] {
    ASSERT_TRUE(DenyCall(SYS_accept4, EMFILE));
    error = TextOf(ConnectMachines({5, 0}, {listener.address, ""}, secret, listener.socket, 60).takeError());
  }).join();
  EXPECT_THAT(error, HasSubstr("accept: "));
}

TEST(ConnectMachinesTest, EachHasAConnectionToEachOther) {
  constexpr std::size_t kMachines = 3;
  const std::string secret = llvm::cantFail(NewSecret());
  std::vector<MachineListener> listeners;
  std::vector<std::string> addresses;
  for (std::size_t machine = 0; machine < kMachines; ++machine) {
    listeners.push_back(llvm::cantFail(ListenToMachines()));
    addresses.push_back(listeners.back().address);
  }
  std::vector<std::vector<std::string>> gathered(kMachines);
  std::thread stranger(
      [&] { llvm::consumeError(ConnectToMachine(addresses[0], llvm::cantFail(NewSecret()), {5, 1}, 0).takeError()); });
  std::vector<std::thread> threads;
  for (std::size_t machine = 0; machine < kMachines; ++machine) {
    threads.emplace_back([&, machine] {
      const std::unique_ptr<SocketRanks> machines =
          llvm::cantFail(ConnectMachines({5, machine}, addresses, secret, listeners[machine].socket, 20));
      EXPECT_STREQ(machines->noun(), "machine");
      gathered[machine] = llvm::cantFail(machines->AllGather(std::to_string(machine)));
      llvm::consumeError(machines->AllGather("").takeError());  // Nobody goes before the others are done.
      machines->Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  listeners.clear();  // The stranger may wait for one.
  stranger.join();
  for (const auto& of_machine : gathered) EXPECT_EQ(of_machine, (std::vector<std::string>{"0", "1", "2"}));
}

TEST(ConnectMachinesTest, OneThatDoesNotComeIsCounted) {
  const MachineListener listener = llvm::cantFail(ListenToMachines());
  const std::vector<std::string> addresses = {listener.address, "1 127.0.0.1"};
  EXPECT_EQ(TextOf(ConnectMachines({5, 0}, addresses, llvm::cantFail(NewSecret()), listener.socket, 0.1).takeError()),
            "1 of the job's 2 machines did not connect within 0.1 s");
}

}  // namespace
}  // namespace ucp
