// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire has the sockets of DHCP clients. A client of IPv4 sends and receives frames,
// because it has no address yet; a client of DHCPv6 has a link-local one.
package wire

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Ports of DHCP.
const (
	serverPort, clientPort   = 67, 68
	server6Port, client6Port = 547, 546
)

// maxFrame is the longest frame that is read. Messages of servers fit into one.
const maxFrame = 1500

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// packetSocket receives the frames of one protocol on one interface, without their headers of
// Ethernet.
type packetSocket struct {
	file     *os.File
	index    int
	protocol uint16
}

// openPacket opens a socket for a protocol of Ethernet. Frames that the filter refuses never
// reach the process.
func openPacket(index int, protocol uint16, filter []bpf.Instruction) (*packetSocket, error) {
	// Without a protocol the socket receives nothing before it has its filter and interface.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := setUp(fd, index, protocol, filter); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &packetSocket{os.NewFile(uintptr(fd), "packet"), index, protocol}, nil
}

func setUp(fd, index int, protocol uint16, filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble the filter of a packet socket: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		return fmt.Errorf("attach the filter of a packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: index}); err != nil {
		return fmt.Errorf("bind a packet socket to interface %d: %w", index, err)
	}
	return nil
}

// bigEndian returns a number as the kernel has it in a sockaddr_ll.
func bigEndian(number uint16) uint16 { return number<<8 | number>>8 }

// send sends a packet to all hosts of the link.
func (s *packetSocket) send(packet []byte) error {
	to := &unix.SockaddrLinklayer{Protocol: bigEndian(s.protocol), Ifindex: s.index, Halen: uint8(len(broadcast))}
	copy(to.Addr[:], broadcast)
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, to) })
	if err == nil {
		err = failed
	}
	return err
}

// notForUs is the type of frames to other hosts (PACKET_OTHERHOST), and of frames of VLANs that
// the host does not have.
const notForUs = unix.PACKET_OTHERHOST

const accept = 0xffff

// answersTo lets through answers of servers to a client, by its hardware address.
func answersTo(hardware net.HardwareAddr) []bpf.Instruction {
	const (
		protocol, fragment = 9, 6 // in the header of IP
		udp                = 8    // bytes of its header
		operation, client  = udp, udp + 28
		moreOrOffset       = 0x3fff
		reply              = 2
	)
	number := func(b []byte) (n uint32) {
		for _, octet := range b {
			n = n<<8 | uint32(octet)
		}
		return n
	}
	var program []bpf.Instruction
	check := func(load bpf.Instruction, test bpf.JumpTest, value uint32) {
		program = append(program, load, bpf.JumpIf{Cond: test, Val: value, SkipTrue: 1}, bpf.RetConstant{Val: 0})
	}
	check(bpf.LoadExtension{Num: bpf.ExtType}, bpf.JumpNotEqual, notForUs)
	check(bpf.LoadAbsolute{Off: protocol, Size: 1}, bpf.JumpEqual, unix.IPPROTO_UDP)
	check(bpf.LoadAbsolute{Off: fragment, Size: 2}, bpf.JumpBitsNotSet, moreOrOffset)
	program = append(program, bpf.LoadMemShift{Off: 0})
	check(bpf.LoadIndirect{Off: 2, Size: 2}, bpf.JumpEqual, clientPort)
	check(bpf.LoadIndirect{Off: operation, Size: 1}, bpf.JumpEqual, reply)
	check(bpf.LoadIndirect{Off: client, Size: 4}, bpf.JumpEqual, number(hardware[:4]))
	check(bpf.LoadIndirect{Off: client + 4, Size: 2}, bpf.JumpEqual, number(hardware[4:6]))
	return append(program, bpf.RetConstant{Val: accept})
}

// allOfTheLink accepts all frames, except frames to other hosts.
func allOfTheLink() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: notForUs, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: accept},
	}
}
