// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

func newMachine(t *testing.T) Machine {
	t.Helper()
	dir := t.TempDir()
	return Machine{Name: "anodetest-node1", Dir: filepath.Join(dir, "node"), Logs: dir}
}

func TestKubelet_Configuration_OwnCgroupAndBothFamilies(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := m.Kubelet(Membership{
		Bin:        "/k8s",
		IPs:        []netip.Addr{netip.MustParseAddr("192.168.77.1"), netip.MustParseAddr("fd77::1")},
		ClusterDNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Authority:  "/ca", Cert: "/c", Key: "/k", Kubeconfig: "/kc", Slow: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{"/k8s/kubelet", "--node-ip=192.168.77.1,fd77::1", "--hostname-override=anodetest-node1", "--kubeconfig=/kc"} {
		if !slices.Contains(spec.Args, arg) {
			t.Errorf("arguments %q lack %q", spec.Args, arg)
		}
	}
	raw, err := os.ReadFile(m.Path("kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CgroupRoot     string   `json:"cgroupRoot"`
		ClusterDNS     []string `json:"clusterDNS"`
		Authentication struct {
			Anonymous struct {
				Enabled *bool `json:"enabled"`
			} `json:"anonymous"`
		} `json:"authentication"`
		Taints []struct {
			Effect string `json:"effect"`
		} `json:"registerWithTaints"`
		ImageGC   int `json:"imageGCHighThresholdPercent"`
		CrashLoop struct {
			Longest string `json:"maxContainerRestartPeriod"`
		} `json:"crashLoopBackOff"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	if config.CgroupRoot != "/anodetest-node1" || !slices.Equal(config.ClusterDNS, []string{"10.96.0.10"}) || config.ImageGC != 100 {
		t.Errorf("configuration %+v", config)
	}
	if len(config.Taints) != 1 || config.Taints[0].Effect != "PreferNoSchedule" {
		t.Errorf("a slow node has the taints %+v, want one that pods avoid", config.Taints)
	}
	if config.CrashLoop.Longest != "1s" {
		t.Errorf("a killed container may wait %q until its next start", config.CrashLoop.Longest)
	}
	if a := config.Authentication.Anonymous.Enabled; a == nil || *a {
		t.Error("the kubelet answers anybody")
	}
}

func TestContainerd_Configuration_OwnFoldersAndSandboxImage(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := m.Containerd(Runtime{Bin: "/ctd", Sandbox: "docker.io/example/pause:1"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(m.Path("containerd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"root = '" + m.Path("containerd") + "'", "sandbox = 'docker.io/example/pause:1'", "address = '" + Socket + "'"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the configuration lacks %q:\n%s", want, raw)
		}
	}
	if !slices.ContainsFunc(spec.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=/ctd:") }) {
		t.Errorf("environment %q: the shim is not found", spec.Env)
	}
	for _, e := range spec.Env {
		if strings.Contains(strings.ToLower(e), "proxy") {
			t.Errorf("the caller's %q leaked in", e)
		}
	}
}

func TestContainerd_Version1_OwnSections(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	old := Runtime{Bin: "/ctd", Minor: "1.7", Sandbox: "docker.io/example/pause:1"}
	if _, err := m.Containerd(old); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(m.Path("containerd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"version = 2\n", "sandbox_image = 'docker.io/example/pause:1'", "[plugins.'io.containerd.grpc.v1.cri'.cni]"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the configuration lacks %q:\n%s", want, raw)
		}
	}
	if strings.Contains(string(raw), "io.containerd.cri.v1") || !old.NeedsLoopback() {
		t.Errorf("the configuration is the one of containerd 2:\n%s", raw)
	}
}

// bootNode boots a machine with an underlay and cgroups of its own.
func bootNode(t *testing.T) (Machine, process.ID) {
	t.Helper()
	needs.Root(t, "to make namespaces")
	topology := underlay.Topology{Lab: "anodetest", Nodes: 1, Octet: 81}
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	cgroups := host.FindCgroups(mounts)
	if cgroups.Unified == "" {
		t.Skip("needs a cgroup2 mount")
	}
	ledger := host.DefaultLedger()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(10*time.Second))
		defer cancel()
		for _, err := range []error{topology.Down(), cgroups.Remove(ctx, topology.Node(1)), ledger.Return(topology.Lab, underlay.InUse)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	if err := ledger.Borrow(topology.Lab, MountPoints()); err != nil {
		t.Fatal(err)
	}
	if err := topology.Up(false); err != nil {
		t.Fatal(err)
	}
	if err := cgroups.Create(topology.Node(1)); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	m.Daemons = cgroups.DaemonsDirs(topology.Node(1))
	holder, err := m.Boot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := holder.ID.Signal(unix.SIGKILL); err != nil {
			t.Error(err)
		}
		<-holder.Exited()
	})
	return m, holder.ID
}

func TestNode_MountsAndPins_StayOnNode(t *testing.T) {
	m, id := bootNode(t)
	var onNode []host.Mount
	var propagation, name string
	err := process.OnThread(func() error {
		if err := process.SpaceOf(id).Enter(); err != nil {
			return err
		}
		for _, dir := range []string{"/run/netns/only-here", "/sys/fs/bpf/only-here", "/etc/cni/net.d/only-here"} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount("tmpfs", "/run/netns/only-here", "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		raw, err := os.ReadFile("/proc/thread-self/mountinfo")
		if err != nil {
			return err
		}
		propagation = string(raw)
		onNode = host.ParseMounts(string(raw))
		var uts unix.Utsname
		if err := unix.Uname(&uts); err != nil {
			return err
		}
		name = unix.ByteSliceToString(uts.Nodename[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if name != m.Name {
		t.Errorf("host name %q, want %q", name, m.Name)
	}
	for _, path := range []string{"/run/netns/only-here", "/sys/fs/bpf/only-here", "/etc/cni/net.d/only-here"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the host sees the node's %s", path)
		}
	}
	points := append(MountPoints(), "/run", "/sys/fs/bpf", "/run/netns/only-here")
	for _, point := range points {
		if !slices.ContainsFunc(onNode, func(m host.Mount) bool { return m.Point == point }) {
			t.Errorf("the node lacks the mount %s", point)
		}
	}
	for line := range strings.Lines(propagation) {
		if !strings.Contains(line, " shared:") || strings.Contains(line, " master:") {
			t.Errorf("a mount of the node is not shared within it alone: %s", line)
		}
	}
	for _, mount := range onNode {
		if mount.Type == "nsfs" {
			t.Errorf("the node holds a copy of the host's namespace at %s", mount.Point)
		}
	}
	hostMounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, mount := range hostMounts {
		if strings.HasPrefix(mount.Point, m.Dir) || mount.Point == "/opt/cni/bin" {
			t.Errorf("the host has the node's mount %s", mount.Point)
		}
	}
}
