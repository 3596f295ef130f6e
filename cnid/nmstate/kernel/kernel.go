// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kernel reads and changes the network of the kernel: interfaces, addresses, routes and
// rules of one network namespace, as documents of package document have them. Package convert has
// the form of the messages; this package sends them.
//
// It speaks rtnetlink(7) itself where the library's types lack fields of documents, for example
// limits of MTUs, the spanning tree protocol and settings of ports. The numbers of attributes
// come from the kernel's headers in include/uapi/linux.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Kernel is the network of one network namespace. It may be used by several goroutines.
type Kernel struct {
	space   ns.NetNS
	handle  *netlink.Handle
	sockets map[int]*nl.SocketHandle
}

// Open returns the network of the calling thread's namespace, for the caller to close.
func Open() (*Kernel, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	space, err := ns.GetCurrentNS()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	k := &Kernel{space: space}
	if err := k.connect(); err != nil {
		k.Close()
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return k, nil
}

// connect opens sockets, which stay in the namespace wherever the threads go that use them.
func (k *Kernel) connect() (err error) {
	if k.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	k.sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	timeout := nl.SocketTimeoutTv
	return errors.Join(
		k.handle.SetSocketTimeout(netlink.GetSocketTimeout()),
		socket.SetSendTimeout(&timeout), socket.SetReceiveTimeout(&timeout), socket.SetExtAck(true))
}

// Close closes it.
func (k *Kernel) Close() {
	for _, socket := range k.sockets {
		socket.Close()
	}
	if k.handle != nil {
		k.handle.Close()
	}
	// Nothing was written, so nothing is lost when closing fails.
	_ = k.space.Close()
}

// ask sends one request, and returns the messages of the answer.
func (k *Kernel) ask(ctx context.Context, kind, flags int, data ...nl.NetlinkRequestData) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(kind, flags)
	request.Sockets = k.sockets
	for _, d := range data {
		request.AddData(d)
	}
	return request.Execute(unix.NETLINK_ROUTE, 0)
}

// tell sends one request that the kernel confirms.
func (k *Kernel) tell(ctx context.Context, kind, flags int, data ...nl.NetlinkRequestData) error {
	_, err := k.ask(ctx, kind, flags|unix.NLM_F_ACK, data...)
	return err
}

// dump returns all objects of a kind, each as a message.
func (k *Kernel) dump(ctx context.Context, kind int, data ...nl.NetlinkRequestData) ([][]byte, error) {
	return rtnl.Complete(func() ([][]byte, error) { return k.ask(ctx, kind, unix.NLM_F_DUMP, data...) })
}
