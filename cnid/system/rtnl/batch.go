// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Batch is a list of requests for one system call. The kernel executes them in order and
// continues after a failure. It takes its lock of all devices for each of them, but the
// thread does not sleep in between, which under load takes far longer than the requests.
type Batch struct {
	requests []*nl.NetlinkRequest
	// doing describes each request, for errors.
	doing []string
	// accepted has the error that is as good as success, by request.
	accepted map[int]error
}

// Add adds a request of a kind, with the flags and the body given. doing describes it, for
// errors.
func (b *Batch) Add(doing string, kind, flags int, data ...nl.NetlinkRequestData) {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	for _, d := range data {
		request.AddData(d)
	}
	b.requests, b.doing = append(b.requests, request), append(b.doing, doing)
}

// AddAccepting adds a request as Add does. An answer with the accepted error is as good as
// success.
func (b *Batch) AddAccepting(accepted error, doing string, kind, flags int, data ...nl.NetlinkRequestData) {
	if b.accepted == nil {
		b.accepted = map[int]error{}
	}
	b.accepted[len(b.requests)] = accepted
	b.Add(doing, kind, flags, data...)
}

// SetLink changes a device: the flags that the mask change selects, and attributes.
func (b *Batch) SetLink(doing string, ifindex int, flags, change uint32, data ...nl.NetlinkRequestData) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = int32(ifindex), flags, change
	b.Add(doing, unix.RTM_SETLINK, 0, append([]nl.NetlinkRequestData{msg}, data...)...)
}

// SetUp sets a device up, with attributes.
func (b *Batch) SetUp(doing string, ifindex int, data ...nl.NetlinkRequestData) {
	b.SetLink(doing, ifindex, unix.IFF_UP, unix.IFF_UP, data...)
}

// NoLinkLocal returns the attribute that prevents the kernel from adding an IPv6 link-local
// address to a device. A kernel without IPv6 has no such setting, and needs none.
func NoLinkLocal() *nl.RtAttr {
	mode := nl.NewRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE})
	family := nl.NewRtAttr(unix.AF_INET6, mode.Serialize())
	return nl.NewRtAttr(unix.IFLA_AF_SPEC, family.Serialize())
}

// Execute sends a batch by the socket and returns the errors, nil without any.
func (s *Socket) Execute(b *Batch) error {
	if len(b.requests) == 0 {
		return nil
	}
	socket := s.batches
	var text bytes.Buffer
	index := map[uint32]int{}
	for i, request := range b.requests {
		text.Write(request.Serialize())
		index[request.Seq] = i
	}
	if err := unix.Sendto(socket.GetFd(), text.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send requests: %w", err)
	}
	errs := make([]error, len(b.requests))
	for len(index) > 0 {
		messages, _, err := socket.Receive()
		if err != nil {
			return fmt.Errorf("receive answers: %w", err)
		}
		for _, m := range messages {
			i, ok := index[m.Header.Seq]
			if !ok || m.Header.Type != unix.NLMSG_ERROR {
				continue
			}
			delete(index, m.Header.Seq)
			if err := answered(m); err != nil && !errors.Is(err, b.accepted[i]) {
				errs[i] = fmt.Errorf("%s: %w", b.doing[i], err)
			}
		}
	}
	return errors.Join(errs...)
}

// answered returns the error of a reply, nil for success.
func answered(m syscall.NetlinkMessage) error {
	if len(m.Data) < 4 {
		return errors.New("short answer of the kernel")
	}
	if errno := int32(nl.NativeEndian().Uint32(m.Data)); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}
