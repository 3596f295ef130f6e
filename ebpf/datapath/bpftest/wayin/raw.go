// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wayin

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
)

// Flags and places of a TCP header.
const (
	flagFIN, flagSYN, flagRST, flagPSH, flagACK = 1, 2, 4, 8, 16

	headerSize = 20
	firstSeq   = 1000
)

// rawPeer is a client of TCP that consists of packets.
type rawPeer struct {
	fd       int
	ip       [4]byte
	from, to uint16
	seq, ack uint32
}

// connectRaw opens a connection by a raw socket. The kernel would reset it, so a listener
// that drops whatever it gets holds the port.
func connectRaw(fd int, to netip.AddrPort) error {
	deaf, from, err := openDeaf(to.Addr().As4())
	if err != nil {
		return err
	}
	defer unix.Close(deaf)
	p := &rawPeer{fd: fd, ip: to.Addr().As4(), from: from, to: to.Port(), seq: firstSeq}
	if err := p.send(flagSYN, nil); err != nil {
		return err
	}
	p.seq++
	for {
		flags, seq, size, err := p.receive()
		switch {
		case err != nil:
			return err
		case flags&(flagRST|flagFIN) != 0:
			return ErrUnanswered
		case size > 0:
			return nil
		case flags&flagSYN != 0:
			p.ack = seq + 1
			if err := p.send(flagACK|flagPSH, []byte(request)); err != nil {
				return err
			}
		}
	}
}

// openDeaf returns a listener whose filter drops all packets, and its port.
func openDeaf(ip [4]byte) (fd int, port uint16, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, 0, err
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	program := &unix.SockFprog{Len: 1, Filter: &nothing[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program); err != nil {
		return -1, 0, fmt.Errorf("attach filter: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: ip}); err != nil {
		return -1, 0, err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return -1, 0, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, err
	}
	return fd, uint16(name.(*unix.SockaddrInet4).Port), nil
}

// send sends one segment.
func (p *rawPeer) send(flags byte, data []byte) error {
	b := binary.BigEndian.AppendUint16(nil, p.from)
	b = binary.BigEndian.AppendUint16(b, p.to)
	b = binary.BigEndian.AppendUint32(b, p.seq)
	b = binary.BigEndian.AppendUint32(b, p.ack)
	b = append(b, headerSize/4<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	b = append(b, data...)
	pseudo := append(append(append([]byte{}, p.ip[:]...), p.ip[:]...), 0, unix.IPPROTO_TCP)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(b)))
	binary.BigEndian.PutUint16(b[16:], wire.Fold(wire.Sum(0, append(pseudo, b...))))
	if err := unix.Sendto(p.fd, b, 0, &unix.SockaddrInet4{Addr: p.ip}); err != nil {
		return fmt.Errorf("send segment: %w", err)
	}
	return nil
}

// receive returns the next segment of the server.
func (p *rawPeer) receive() (flags byte, seq uint32, size int, err error) {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(p.fd, buffer, 0)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("receive segment: %w", err)
		}
		tcp := buffer[int(buffer[0]&15)*4 : n]
		if binary.BigEndian.Uint16(tcp) == p.to && binary.BigEndian.Uint16(tcp[2:]) == p.from {
			return tcp[13], binary.BigEndian.Uint32(tcp[4:]), len(tcp) - int(tcp[12]>>4)*4, nil
		}
	}
}
