// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes has the nodes of benches that need no lab: network namespaces with one
// program each, Alioth's daemon or kube-proxy.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// Node is a node without a kubelet: a network namespace with the daemon in it, which attaches any
// number of pods. A pod is a namespace.
type Node struct {
	// Name is the name of the node and of its network namespace; Address is its IPv4 address.
	Name, Address string
	// program is the daemon's, folder everything that it writes.
	program, folder string
	// relay is the daemon's way to the API server, which listens on loopback of
	// another namespace.
	relay  *relay
	daemon *exec.Cmd
	log    *os.File
}

// NetNS returns the file of the node's network namespace.
func (n *Node) NetNS() string { return underlay.NetNSPath(n.Name) }

// PinDir is where the daemon pins its maps.
func (n *Node) PinDir() string { return filepath.Join(n.folder, "bpf", "alioth") }

// Socket is where the daemon listens.
func (n *Node) Socket() string {
	return filepath.Join(n.folder, "run", filepath.Base(cniapi.DefaultSocket))
}

func (n *Node) conflist() string { return filepath.Join(n.folder, "net.d", cnidir.ConflistName) }

// New makes a node with an IPv4 address; the caller removes it,
// also after an error. Its underlay leads nowhere.
func New(ctx context.Context, name, address, program string, api *rest.Config) (*Node, error) {
	n := &Node{Name: name, Address: address, program: program}
	var err error
	if n.folder, err = os.MkdirTemp("", "alioth-bench-"); err != nil {
		return n, fmt.Errorf("make a folder: %w", err)
	}
	for _, dir := range []string{"bpf", "state", "run", "bin", "net.d"} {
		if err := os.Mkdir(filepath.Join(n.folder, dir), 0o700); err != nil {
			return n, fmt.Errorf("make a folder: %w", err)
		}
	}
	if err := unix.Mount("bpf", filepath.Join(n.folder, "bpf"), "bpf", 0, ""); err != nil {
		return n, fmt.Errorf("mount a bpf file system: %w", err)
	}
	in := "ip -n " + name + " "
	for _, step := range []string{
		"ip netns add " + name, in + "link set lo up", in + "link add eth0 type veth peer name wire",
		in + "addr add " + address + "/24 dev eth0", in + "link set wire up", in + "link set eth0 up",
	} {
		if err := RunStep(ctx, step); err != nil {
			return n, err
		}
	}
	if n.relay, err = newRelay(n.NetNS(), api); err != nil {
		return n, err
	}
	own := rest.CopyConfig(api)
	own.Host = "https://" + n.relay.listener.Addr().String()
	return n, chart.WriteKubeconfig(filepath.Join(n.folder, "kubeconfig"), own)
}

// Start starts the daemon and returns how long it took until it had programmed all
// objects of the API that concern the node.
func (n *Node) Start(ctx context.Context) (time.Duration, error) {
	if err := os.Remove(n.conflist()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("remove the CNI configuration: %w", err)
	}
	in := func(dir string) string { return filepath.Join(n.folder, dir) }
	began := time.Now()
	if err := n.launch(ctx, "--node-name="+n.Name, "--kubeconfig="+in("kubeconfig"), "--state-dir="+in("state"), "--run-dir="+in("run"),
		"--bpf-dir="+n.PinDir(), "--cni-bin-dir="+in("bin"), "--cni-conf-dir="+in("net.d")); err != nil {
		return 0, err
	}
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(n.conflist()); err == nil {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the daemon of %s, see %s: %w", n.Name, n.log.Name(), context.Cause(ctx))
		case <-again.C:
		}
	}
}

// launch starts the node's program in its namespace.
func (n *Node) launch(ctx context.Context, arguments ...string) (err error) {
	n.daemon = exec.CommandContext(
		context.WithoutCancel(ctx),
		"nsenter",
		append([]string{"--net=" + n.NetNS(), n.program}, arguments...)...)
	if n.log, err = os.OpenFile(filepath.Join(n.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open the log of %s: %w", n.Name, err)
	}
	n.daemon.Stdout, n.daemon.Stderr = n.log, n.log
	if err := n.daemon.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.program, err)
	}
	return nil
}

// Kill ends the daemon, which leaves everything as it is.
func (n *Node) Kill() {
	if n.daemon == nil {
		return
	}
	_ = n.daemon.Process.Kill() // it may have ended
	_ = n.daemon.Wait()
	_ = n.log.Close()
	n.daemon = nil
}

// Forget takes programs and maps from the node while no daemon runs.
func (n *Node) Forget() error {
	mounts, err := host.Mounts()
	if err != nil {
		return err
	}
	root := host.FindCgroups(mounts).Unified
	return inNetNS(n.NetNS(), func() error { return datapath.Uninstall(n.PinDir(), root) })
}

// Attach makes a pod's namespace and has the daemon attach it.
func (n *Node) Attach(ctx context.Context, namespace, pod, uid string) error {
	space := n.PodNetNS(pod)
	if err := RunStep(ctx, "ip netns add "+space); err != nil {
		return err
	}
	if err := RunStep(ctx, "ip -n "+space+" link set lo up"); err != nil {
		return err
	}
	_, err := cniapi.Client{Socket: n.Socket()}.Do(ctx, cniapi.Request{
		Command: "ADD", ContainerID: space, Netns: underlay.NetNSPath(space), IfName: "eth0", Path: "/",
		Args:   "IgnoreUnknown=1;K8S_POD_NAMESPACE=" + namespace + ";K8S_POD_NAME=" + pod + ";K8S_POD_UID=" + uid + ";K8S_POD_INFRA_CONTAINER_ID=" + space,
		Config: []byte(`{"cniVersion":"1.0.0","name":"alioth","type":"alioth"}`),
	})
	if err != nil {
		return fmt.Errorf("attach pod %s: %w", pod, err)
	}
	return nil
}

// Unhook moves a pod's interface into another network namespace, which it returns: socket
// hooks have no record of that namespace, as of a virtual machine's.
func (n *Node) Unhook(ctx context.Context, pod string) (space string, err error) {
	from, space := n.PodNetNS(pod), n.PodNetNS(pod)+"-machine"
	addresses, err := exec.CommandContext(ctx, "ip", "-n", from, "-4", "-o", "addr", "show", "dev", "eth0").Output()
	if err != nil {
		return "", fmt.Errorf("read the addresses of %s: %w", pod, err)
	}
	route, err := exec.CommandContext(ctx, "ip", "-n", from, "-4", "route", "show", "default").Output()
	if err != nil {
		return "", fmt.Errorf("read the routes of %s: %w", pod, err)
	}
	var index, device, family, address string
	if _, err := fmt.Sscan(string(addresses), &index, &device, &family, &address); err != nil {
		return "", fmt.Errorf("read the address of %s in %q: %w", pod, addresses, err)
	}
	for _, step := range []string{
		"ip netns add " + space, "ip -n " + space + " link set lo up", "ip -n " + from + " link set eth0 netns " + space,
		"ip -n " + space + " addr add " + address + " dev eth0", "ip -n " + space + " link set eth0 up",
		"ip -n " + space + " route replace " + strings.TrimSpace(string(route)),
	} {
		if err := RunStep(ctx, step); err != nil {
			return "", err
		}
	}
	return space, nil
}

// PodNetNS returns the name of a pod's network namespace.
func (n *Node) PodNetNS(pod string) string { return n.Name + "-" + pod }

// Remove takes the node away, pods included, however little of it was made.
func (n *Node) Remove(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	n.Kill()
	if n.relay != nil {
		n.relay.close()
	}
	errs := []error{n.Forget()}
	spaces, err := filepath.Glob(underlay.NetNSPath(n.Name) + "*")
	for _, space := range spaces {
		errs = append(errs, RunStep(ctx, "ip netns delete "+filepath.Base(space)))
	}
	errs = append(errs, err, unix.Unmount(filepath.Join(n.folder, "bpf"), 0), os.RemoveAll(n.folder))
	return errors.Join(errs...)
}

// inNetNS calls a function with the thread in a network namespace.
func inNetNS(path string, do func() error) error {
	space, err := ns.GetNS(path)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer space.Close()
	return space.Do(func(ns.NetNS) error { return do() })
}

// relay passes connections from a network namespace on to an API server.
type relay struct{ listener net.Listener }

func newRelay(netns string, api *rest.Config) (*relay, error) {
	target, err := url.Parse(api.Host)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	r := &relay{}
	err = inNetNS(netns, func() (err error) {
		r.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in %s: %w", netns, err)
	}
	go r.serve(target.Host)
	return r, nil
}

func (r *relay) close() { _ = r.listener.Close() }

func (r *relay) serve(target string) {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", target)
		if err != nil {
			near.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
			}()
		}
	}
}

// Memory returns how much of the daemon lies in memory now and at most did so far, in
// MiB.
func (n *Node) Memory() (now, most float64, err error) {
	pid := n.daemon.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			now = kib / 1024
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			most = kib / 1024
		}
	}
	return now, most, nil
}
