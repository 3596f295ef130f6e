// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// beKubelet makes the test's process the kubelet of a node, which it stays for as long
// as the programs are the node's.
func beKubelet(t *testing.T, n *lab.Node) {
	t.Helper()
	bpftest.In(t, n.NS, func() {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", programs.DefaultKubeletPort))
		bpftest.Must(t, err)
		t.Cleanup(func() { l.Close() })
	})
}

// process is a process that connects once, and reports the result.
type process struct {
	// listens: the process listens at the kubelet's port meanwhile.
	listens bool
	// nobody: the process has no capabilities.
	nobody bool
	linger int
}

// playProcess names the variable that makes this test's binary such a process.
const playProcess = "ALIOTH_TEST_PROCESS"

// connect makes a process of its own connect from a namespace.
func (p process) connect(t *testing.T, ns netns.NsHandle, to netip.AddrPort) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOneProcess_StartedByConnect_Connects$", "-test.v")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%t %d %s", playProcess, p.listens, p.linger, to))
	if p.nobody {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var output []byte
	var err error
	bpftest.In(t, ns, func() { output, err = command.CombinedOutput() })
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// TestOneProcess_StartedByConnect_Connects is the test that connect starts, and does nothing otherwise.
func TestOneProcess_StartedByConnect_Connects(t *testing.T) {
	var listens bool
	var linger int
	var to string
	if _, err := fmt.Sscanf(os.Getenv(playProcess), "%t %d %s", &listens, &linger, &to); err != nil {
		return
	}
	if listens {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", programs.DefaultKubeletPort))
		bpftest.Must(t, err)
		defer l.Close()
	}
	bpftest.Must(t, connectOnce(netip.MustParseAddrPort(to), linger))
}

// connectOnce needs no rights.
func connectOnce(to netip.AddrPort, linger int) error {
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if linger > 0 {
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(linger)}); err != nil {
			return err
		}
	}
	return unix.Connect(fd, sockaddr(to))
}

// probedPod returns a pod whose addresses the node has as well, and a server for each at
// either place, at one port.
func probedPod(t *testing.T, port uint16) (l *lab.Lab, inPod, inNode [2]net.Listener) {
	t.Helper()
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	for family, shadow := range []netip.Addr{n.State.Interfaces[0].Shadow4, n.State.Interfaces[0].Shadow6} {
		ip := red[10].Addrs[family]
		n.State.Probes = append(n.State.Probes, state.ProbeTarget{IP: ip, Shadow: shadow})
		n.State.Hooks = append(n.State.Hooks, state.HookTarget{IP: ip, Shadow: shadow})
		bpftest.In(t, n.NS, func() { bpftest.AddAddr(t, 1, bpftest.Host(ip)) })
		dst := netip.AddrPortFrom(ip, port)
		inPod[family], inNode[family] = bpftest.Listen(t, red[10].NS, dst), bpftest.Listen(t, n.NS, dst)
	}
	l.Apply()
	return l, inPod, inNode
}

func TestConnect_SeveralProcesses_OnlyKubeletRedirectedToPod(t *testing.T) {
	l, inPod, inNode := probedPod(t, 8080)
	n := l.Nodes[0]
	for _, c := range []struct {
		name string
		process
		led bool
	}{
		{"a process that lingers as the kubelet does", process{linger: 1}, false},
		{"a process that doesn't", process{}, false},
		{"one that listens in the kubelet's place without being an administrator", process{linger: 1, listens: true, nobody: true}, false},
		{"the kubelet's probe", process{linger: 1, listens: true}, true},
		{"a kubelet that was started anew", process{linger: 1, listens: true}, true},
		{"the kubelet's hook", process{listens: true}, true},
		{"a process behind the kubelet's end", process{linger: 1}, false},
	} {
		for family := range 2 {
			dst := netip.MustParseAddrPort(inNode[family].Addr().String())
			if err := c.connect(t, n.NS, dst); err != nil {
				t.Errorf("%s to %s: %v", c.name, dst, err)
				continue
			}
			where := inNode[family]
			if c.led {
				where = inPod[family]
			}
			conn, _ := bpftest.Accept(t, where)
			conn.Close()
		}
	}
	got := bpftest.Counts(t, n.Datapath)
	if got["socket/probe_rewritten"] != 4 || got["socket/hook_rewritten"] != 2 {
		t.Errorf("rewritten connects were counted as %v", got)
	}
}

// A hook's answer may redirect the kubelet to the port of no hook.
func TestKubelet_StopsListening_StillRecognized(t *testing.T) {
	l, inPod, _ := probedPod(t, 9999)
	n := l.Nodes[0]
	dst := netip.MustParseAddrPort(inPod[0].Addr().String())
	bpftest.In(t, n.NS, func() {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", programs.DefaultKubeletPort))
		bpftest.Must(t, err)
		defer listener.Close()
		_, err = bpftest.Dial(t, n.NS, dst, 0)
		bpftest.Must(t, err)
	})
	bpftest.Accept(t, inPod[0])
	n.Restart(t, func() { // it stops listening, which it may do while it ends
		_, err := bpftest.Dial(t, n.NS, dst, 1)
		bpftest.Must(t, err)
		bpftest.Accept(t, inPod[0])
	})
	_, err := bpftest.Dial(t, n.NS, dst, 1)
	bpftest.Must(t, err)
	bpftest.Accept(t, inPod[0])
}

func TestKubelet_ProbedPodAbsent_Refused(t *testing.T) {
	l, _, inNode := probedPod(t, 8080)
	n := l.Nodes[0]
	for family := range 2 {
		n.State.Probes[family].Shadow = netip.Addr{}
	}
	n.State.Hooks = nil
	l.Apply()
	before := bpftest.Counts(t, n.Datapath)
	for family := range 2 {
		dst := netip.MustParseAddrPort(inNode[family].Addr().String())
		_, err := bpftest.Dial(t, n.NS, dst, 1)
		bpftest.Must(t, err) // it is not the kubelet yet
		bpftest.Accept(t, inNode[family])
	}
	beKubelet(t, n)
	for family := range 2 {
		dst := netip.MustParseAddrPort(inNode[family].Addr().String())
		if _, err := bpftest.Dial(t, n.NS, dst, 1); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("a probe of %s: %v, want a refusal", dst, err)
		}
		_, err := bpftest.Dial(t, n.NS, dst, 0)
		bpftest.Must(t, err) // its other business
		bpftest.Accept(t, inNode[family])
	}
	got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))
	if got["socket/kubelet_no_pod"] != 2 || got["socket/probe_rewritten"] != 0 {
		t.Errorf("counted as %s", strings.TrimSpace(fmt.Sprint(got)))
	}
}
