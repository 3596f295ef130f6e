// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds the types of the test tool's output, as JSON, one value per line, and the
// ports that its server uses, so that tests and benches read with the same types that the tool
// writes with.
package report

import "time"

// Ports that "testtool serve" listens on unless flags say otherwise.
const (
	// PortEcho answers every TCP line and UDP datagram with the server's name,
	// the peer's address and the text.
	PortEcho = 7001
	// PortStream returns every byte that comes in over TCP.
	PortStream = 7002
	// PortSink swallows TCP and UDP load and reports how much came in.
	PortSink = 7003
	// PortRoundTrip returns each one-byte TCP request at once.
	PortRoundTrip = 7004
	// PortHTTP serves /healthz, /hostname, /echo, /seen and any other path.
	PortHTTP = 8080
	// PortGRPC serves the gRPC health protocol.
	PortGRPC = 9090
)

// Probe is the outcome of one "testtool probe" target.
type Probe struct {
	// Target as given, for example tcp://10.10.1.2:7001.
	Target string `json:"target"`
	// OK is true when an answer came.
	OK bool `json:"ok"`
	// Name that the server gave itself; empty for ICMP.
	Name string `json:"name,omitempty"`
	// Peer is the prober's own address as the server saw it; empty for ICMP.
	Peer string `json:"peer,omitempty"`
	// PeerPort is the port of TCP and UDP that goes with it.
	PeerPort uint16 `json:"peerPort,omitempty"`
	// Error of the last attempt when no answer came.
	Error string `json:"error,omitempty"`
	// Took is the time until the answer, failed attempts included.
	Took time.Duration `json:"took"`
}

// Socket is the outcome of one "testtool socket" target.
type Socket struct {
	Target string `json:"target"`
	// Name that the server gave itself, and Peer the asker as it saw it; empty when
	// no answer came.
	Name string `json:"name,omitempty"`
	Peer string `json:"peer,omitempty"`
	// PeerName is the result of getpeername for a connected socket. From is the sender that
	// recvfrom returns for a datagram socket.
	PeerName string `json:"peerName,omitempty"`
	From     string `json:"from,omitempty"`
	// Error is the error that ended it, with its system call.
	Error string `json:"error,omitempty"`
}

// Held is the outcome for a socket that was kept open.
type Held struct {
	First Socket `json:"first"`
	// Ended is the kernel's error when the socket was ended, as by the datapath.
	Ended string `json:"ended,omitempty"`
	// Again is the same socket's second answer, where it was not ended.
	Again *Socket `json:"again,omitempty"`
}

// Neighbour is the outcome of a question for the MACs of an address.
type Neighbour struct {
	IP string `json:"ip"`
	// At are the MACs that answered.
	At []string `json:"at,omitempty"`
}

// Ping sums up a series of echo requests.
type Ping struct {
	Target     string `json:"target"`
	Sent       int    `json:"sent"`
	Received   int    `json:"received"`
	Lost       int    `json:"lost"`
	Duplicates int    `json:"duplicates"`
	// LongestGap is the greatest number of requests in a row that got no reply.
	LongestGap int `json:"longestGap"`
	// RTT of the requests that got a reply.
	RTT Quantiles `json:"rtt"`
}

// FirstReply is when an address answered for the first time.
type FirstReply struct {
	Target string    `json:"target"`
	At     time.Time `json:"at"`
}

// Stream sums up a long transfer over one TCP connection at a time.
type Stream struct {
	Target string `json:"target"`
	// Sent counts the records sent, Returned the records that came back in order and unchanged.
	Sent     int `json:"sent"`
	Returned int `json:"returned"`
	// Reconnects is how often the connection broke and was opened anew.
	Reconnects int `json:"reconnects"`
	// Corrupt is the number of records that came back out of order or changed.
	Corrupt int `json:"corrupt"`
	// LongestSilence between two returned records.
	LongestSilence time.Duration `json:"longestSilence"`
	// Errors that broke a connection, in order.
	Errors []string `json:"errors,omitempty"`
}

// Connections sums up new TCP connections with one request each.
type Connections struct {
	Target string `json:"target"`
	// Opened counts all connections, Answered and Lost count them by their end.
	Opened   int `json:"opened"`
	Answered int `json:"answered"`
	Lost     int `json:"lost"`
	// Losses are the first losses.
	Losses   []Loss        `json:"losses,omitempty"`
	Duration time.Duration `json:"duration"`
	// Took of the answered ones, from the first packet to the answer.
	Took Quantiles `json:"took"`
	// Servers are how many each server has answered, by the name that it gave.
	Servers map[string]int `json:"servers"`
}

// Loss is a connection that got no answer.
type Loss struct {
	// After is when it was opened, since the beginning; Took how long it took to
	// fail.
	After time.Duration `json:"after"`
	Took  time.Duration `json:"took"`
	// Cause is the step, with the error of the socket.
	Cause string `json:"cause"`
}

// Conversation sums up numbered lines over one socket at a time.
type Conversation struct {
	Target string `json:"target"`
	// Sent counts lines, and Answered the sent lines with an answer.
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	// Turns are who has answered, in order.
	Turns []Turn `json:"turns"`
	// Broken is how often the socket ended and another was opened, Breaks the first
	// causes, in order.
	Broken int      `json:"broken"`
	Breaks []string `json:"breaks,omitempty"`
}

// Turn is a server that has answered a number of times in a row.
type Turn struct {
	Name    string `json:"name"`
	Answers int    `json:"answers"`
}

// Load is the result of a one-way load: bytes or datagrams per second as the
// receiver counted them.
type Load struct {
	Target   string        `json:"target"`
	Bytes    int64         `json:"bytes"`
	Packets  int64         `json:"packets,omitempty"`
	Sent     int64         `json:"sent,omitempty"`
	Duration time.Duration `json:"duration"`
	// BitsPerSecond received.
	BitsPerSecond float64 `json:"bitsPerSecond"`
	// PacketsPerSecond received; UDP only.
	PacketsPerSecond float64 `json:"packetsPerSecond,omitempty"`
}

// Latency is the result of request/response over one connection.
type Latency struct {
	Target       string        `json:"target"`
	Transactions int64         `json:"transactions"`
	Duration     time.Duration `json:"duration"`
	PerSecond    float64       `json:"perSecond"`
	RTT          Quantiles     `json:"rtt"`
}

// Quantiles of a series of durations; all zero for an empty series.
type Quantiles struct {
	Min  time.Duration `json:"min"`
	Mean time.Duration `json:"mean"`
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
	Max  time.Duration `json:"max"`
}

// Seen is one message that a server got.
type Seen struct {
	// Proto is tcp, udp, http or grpc.
	Proto string `json:"proto"`
	// Peer address, without the port.
	Peer string `json:"peer"`
	// Text of the line or datagram, or the path of the HTTP request.
	Text string `json:"text"`
}
