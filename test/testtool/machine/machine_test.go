// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/testtool/machine"
)

// inNew runs a function on a thread of its own, which ends with it and with it the
// network namespace that the thread is in.
func inNew(t *testing.T, do func() error) {
	t.Helper()
	needs.Root(t, "to make network namespaces")
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		space, err := netns.New()
		if err == nil {
			defer space.Close()
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// ip runs commands of ip in the namespace that the thread is in.
func ip(commands ...string) error {
	for _, command := range commands {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// A pod's device has one address of each family and no neighbours but its gateway.
func TestMachine_Joined_PodAddressesAndTraffic(t *testing.T) {
	inNew(t, func() error {
		pod, err := netns.Get()
		if err != nil {
			return err
		}
		defer pod.Close()
		node, err := netns.New()
		if err != nil {
			return err
		}
		defer node.Close()
		err = ip("link set lo up", "link add host type veth peer name eth0 netns "+fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(pod)),
			"addr add 192.0.2.1/24 dev host", "addr add 2001:db8::1/64 dev host nodad", "link set host up")
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", ":7001")
		if err != nil {
			return err
		}
		defer listener.Close()
		if err := netns.Set(pod); err != nil {
			return err
		}
		err = ip("addr add 192.0.2.2/32 dev eth0", "addr add 2001:db8::2/128 dev eth0 nodad", "link set eth0 up",
			"route add default via 192.0.2.1 dev eth0 onlink", "route add default via 2001:db8::1 dev eth0 onlink")
		if err != nil {
			return err
		}
		if err := machine.Join(unix.Gettid(), "eth0"); !errors.Is(err, machine.ErrNone) {
			t.Errorf("joining the pod's own namespace ends with %v", err)
		}
		if err := machine.Make("eth0"); err != nil {
			return err
		}
		if err := machine.Join(unix.Gettid(), "eth0"); err != nil {
			t.Errorf("joining the machine: %v", err)
		}
		here, err := netns.Get()
		if err != nil {
			return err
		}
		defer here.Close()
		if here.Equal(pod) {
			t.Error("the thread is still in the pod's namespace")
		}
		for target, want := range map[string]string{"192.0.2.1:7001": "192.0.2.2", "[2001:db8::1]:7001": "2001:db8::2"} {
			if err := expectSeen(t, listener, target, want); err != nil {
				return err
			}
		}
		return nil
	})
}

// expectSeen connects and requires that the listener sees the address.
func expectSeen(t *testing.T, listener net.Listener, target, want string) error {
	t.Helper()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	defer conn.Close()
	served, err := listener.Accept()
	if err != nil {
		return err
	}
	defer served.Close()
	if got := served.RemoteAddr().(*net.TCPAddr).IP.String(); got != want {
		t.Errorf("%s sees %s, want %s", target, got, want)
	}
	return nil
}
