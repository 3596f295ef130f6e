// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// labName and labOctet keep these tests apart from a lab of `make up`.
const (
	labName  = "altest"
	labOctet = 78
)

// fixture is a lab to be, with the traces on the host before it.
type fixture struct {
	root     string
	options  cluster.Options
	traces   traces
	before   []string
	settings map[string]string
	hooks    int
	// others were there too, and have files, hooks and settings that go with them.
	others int
	shared []string
}

// newFixture takes stock of the host. The lab goes with the test.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Getenv("ALIOTH_TEST_LAB") == "" {
		t.Skip("brings up a cluster: set ALIOTH_TEST_LAB=1")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shareImages(t, root, dir)
	// An archive survives every lab: built here, the rest must be gone.
	f := &fixture{
		root:   root,
		traces: traces{lab: labName, dir: filepath.Join(dir, "nodes"), namespaces: map[uint64]*os.File{}},
		options: cluster.Options{
			Topology: underlay.Topology{Lab: labName, Nodes: 2, Octet: labOctet},
			CNI:      cluster.CNIBridge, Dir: dir, Progress: func(line string) { t.Log(line) },
		},
	}
	t.Cleanup(f.traces.release)
	f.before, f.settings, f.hooks, f.others = f.traces.find(t), host.Settings(), socketHooks(t), otherLabs(t)
	f.shared = shared(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(time.Minute))
		defer cancel()
		if err := cluster.Down(ctx, root, dir, nil); err != nil {
			t.Error(err)
		}
	})
	return f
}

// shareImages has a lab use the images of the lab that `make up` brings up, which would be linked
// once more for each folder.
func shareImages(t *testing.T, root, dir string) {
	t.Helper()
	shared := filepath.Join(cluster.DefaultDir(root), "images")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shared, filepath.Join(dir, "images")); err != nil {
		t.Fatal(err)
	}
}

// down takes the lab down and compares the host with before.
func (f *fixture) down(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	if err := cluster.Down(ctx, f.root, f.options.Dir, f.options.Progress); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.before, f.traces.find(t)); diff != "" {
		t.Errorf("traces on the host (-before +after):\n%s", diff)
	}
	f.traces.release()
	for _, name := range []string{"kubeconfig", "state.json", "bin", "control", "nodes", "cache"} {
		if _, err := os.Stat(filepath.Join(f.options.Dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left in the lab's folder", name)
		}
	}
	if f.others == 0 && otherLabs(t) == 0 {
		if diff := cmp.Diff(f.shared, shared(t)); diff != "" {
			t.Errorf("files that labs share (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(f.settings, host.Settings()); diff != "" {
			t.Errorf("kernel settings (-before +after):\n%s", diff)
		}
		// The kernel frees a link some time after its last pin.
		err := objects.WaitFor(ctx, "the socket hooks are gone", func(context.Context) error {
			if n := socketHooks(t); n != f.hooks {
				return fmt.Errorf("%d at the root cgroup, %d before", n, f.hooks)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestUpDown_Alioth_NothingLeft(t *testing.T) {
	f := newFixture(t)
	f.options.CNI = cluster.CNIAlioth
	f.leaveUnderlay(t)
	c, err := cluster.Up(t.Context(), f.root, f.options)
	if err != nil {
		t.Fatal(err)
	}
	startPods(t, c, "pod", images.TestTool)
	t.Run("commands run in pods, on nodes and on further hosts", func(t *testing.T) { testCommands(t, c) })
	t.Run("pods resolve names and reach each other across nodes", func(t *testing.T) { testTraffic(t, c) })
	t.Run("a killed container is started again", func(t *testing.T) { testKill(t, c) })
	t.Run("a node without its cable is unreachable until it is back", func(t *testing.T) { testCable(t, c) })
	t.Run("a killed daemon of Alioth comes back", func(t *testing.T) { testKillDaemon(t, c) })
	t.Run("a pod's namespace is known", func(t *testing.T) { testPodNetNS(t, c) })
	t.Run("bringing it up again changes nothing", func(t *testing.T) { f.testUpAgain(t, c) })
	// Last: a restarted API server may refuse writes until it has read its policies again.
	t.Run("a stopped daemon stays away until it is started", func(t *testing.T) { testStop(t, c) })
	if socketHooks(t) == f.hooks {
		t.Error("no socket hooks while Alioth is up: the search for leftovers would miss them")
	}
	f.traces.learn(t)
	f.down(t)
	f.down(t)
}

// TestUpDown_ReferencePlugins_NothingLeft: every run of the benchmark uses this lab, the lab of
// `make bench`.
func TestUpDown_ReferencePlugins_NothingLeft(t *testing.T) {
	soak.Only(t)
	f := newFixture(t)
	c, err := cluster.Up(t.Context(), f.root, f.options)
	if err != nil {
		t.Fatal(err)
	}
	startPods(t, c, "pod", images.TestTool)
	t.Run("pods resolve names and reach each other across nodes", func(t *testing.T) { testTraffic(t, c) })
	f.traces.learn(t)
	f.down(t)
}

// leaveUnderlay leaves network namespaces as a lab does whose processes and state are gone. As long
// as a namespace has a process, no other lab takes its place.
func (f *fixture) leaveUnderlay(t *testing.T) {
	t.Helper()
	if err := f.options.Topology.Up(true); err != nil {
		t.Fatal(err)
	}
	ns := "--net=" + underlay.NetNSPath(f.options.Topology.NodeNames()[0])
	resident := exec.CommandContext(t.Context(), "nsenter", ns, "sleep", "infinity")
	if err := resident.Start(); err != nil {
		t.Fatal(err)
	}
	err := objects.WaitFor(t.Context(), "the process is in the namespace", func(context.Context) error {
		inside, err := process.Inside([]string{underlay.NetNSPath(f.options.Topology.NodeNames()[0])})
		if err == nil && len(inside) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Up(t.Context(), f.root, f.options); err == nil || !strings.Contains(err.Error(), "another lab") {
		t.Errorf("beside a lab with a process: %v", err)
	}
	if err := resident.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = resident.Wait() // it was killed
}

// podManifest is a pod on a given node whose command lasts until it is killed.
const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  nodeName: %[2]s
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: "%[3]s", imagePullPolicy: Never, command: [/bin/sleep, infinity]}
---
`

// startPods starts the pods <prefix>1 and <prefix>2, each on the node of that
// number.
func startPods(t *testing.T, c *cluster.Cluster, prefix, image string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	var manifest strings.Builder
	for i, n := range c.Nodes() {
		fmt.Fprintf(&manifest, podManifest, fmt.Sprintf("%s%d", prefix, i+1), n.Name, image)
	}
	err := objects.WaitFor(ctx, "the ServiceAccount exists", func(ctx context.Context) error {
		return c.Apply(ctx, []byte(manifest.String()))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Nodes() {
		if err := c.WaitPodReady(ctx, "default", fmt.Sprintf("%s%d", prefix, i+1)); err != nil {
			t.Fatal(err)
		}
	}
}

func testCommands(t *testing.T, c *cluster.Cluster) {
	ctx := t.Context()
	out, err := c.ExecInPod(ctx, "default", "pod1", "", "sh", "-c", "echo hello; echo $0")
	if err != nil || out != "hello\nsh\n" {
		t.Errorf("in the pod: %q, %v", out, err)
	}
	_, err = c.ExecInPod(ctx, "default", "pod1", "main", "sh", "-c", "echo sorry >&2; exit 7")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 || !strings.Contains(err.Error(), "sorry") {
		t.Errorf("a failing command: %v", err)
	}
	for _, n := range c.Nodes() {
		out, err := c.NodeExec(ctx, n.Name, "hostname")
		if err != nil || strings.TrimSpace(out) != n.Name {
			t.Errorf("on %s: %q, %v", n.Name, out, err)
		}
	}
	stranger, err := c.AddHost("stranger", netip.MustParseAddr(fmt.Sprintf("192.168.%d.200", labOctet)))
	if err != nil {
		t.Fatal(err)
	}
	out, err = stranger.Exec(ctx, "ip", "-4", "-o", "addr", "show", "dev", "eth0")
	if err != nil || !strings.Contains(out, fmt.Sprintf("192.168.%d.200/24", labOctet)) {
		t.Errorf("on the further host: %q, %v", out, err)
	}
	if err := stranger.Remove(); err != nil {
		t.Error(err)
	}
	if out, err := c.Kubectl(ctx, "get", "nodes", "-o", "name"); err != nil || strings.Count(out, "node/") != len(c.Nodes()) {
		t.Errorf("kubectl: %q, %v", out, err)
	}
}

func testTraffic(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	pod2, err := c.Client().CoreV1().Pods("default").Get(ctx, "pod2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pod2.Status.PodIPs) != 2 {
		t.Errorf("pod addresses %v: want one per family", pod2.Status.PodIPs)
	}
	for _, ip := range pod2.Status.PodIPs {
		if _, err := c.ExecInPod(ctx, "default", "pod1", "", "ping", "-c", "1", "-W", "5", ip.IP); err != nil {
			t.Error(err)
		}
	}
	servers, err := c.WaitPodsReady(ctx, "kube-system", "k8s-app=kube-dns", 2)
	if err != nil {
		t.Fatal(err)
	}
	// No program serves ClusterIPs here, so the question goes to a server itself.
	out, err := c.ExecInPod(ctx, "default", "pod1", "", "nslookup", "kubernetes.default.svc.cluster.local", servers[0].Status.PodIP)
	if err != nil || !strings.Contains(out, "10.96.0.1") {
		t.Errorf("name resolution: %q, %v", out, err)
	}
}

func testKill(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	if err := c.SignalContainer(ctx, "default", "pod1", "", unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := objects.WaitFor(ctx, "the container was started again", func(ctx context.Context) error {
		pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "pod1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 1 {
			return fmt.Errorf("%d restarts", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitPodReady(ctx, "default", "pod1"); err != nil {
		t.Error(err)
	}
}

func testCable(t *testing.T, c *cluster.Cluster) {
	first, second := c.Nodes()[0], c.Nodes()[1]
	ping := func(ctx context.Context) error {
		_, err := c.NodeExec(ctx, first.Name, "/bin/busybox", "ping", "-c", "1", "-W", "1", second.IPv4.String())
		return err
	}
	if err := ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.CutLink(second.Name); err != nil {
		t.Fatal(err)
	}
	if ping(t.Context()) == nil {
		t.Error("the node answers without its cable")
	}
	if err := c.RestoreLink(second.Name); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	if err := objects.WaitFor(ctx, "the node answers again", ping); err != nil {
		t.Error(err)
	}
}

func testStop(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	name := c.Nodes()[0].Name + "/kube-apiserver"
	answers := func(ctx context.Context) error {
		_, err := c.Client().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}
	if err := c.StopProcess(ctx, name); err != nil {
		t.Fatal(err)
	}
	if answers(ctx) == nil {
		t.Error("the API server answers after its end")
	}
	if err := c.StartProcess(ctx, name); err != nil {
		t.Fatal(err)
	}
	if err := objects.WaitFor(ctx, "the API server answers again", answers); err != nil {
		t.Error(err)
	}
}

// foreignImage writes an archive of an image that the lab does not know: the
// test tool's under another name.
func (f *fixture) foreignImage(t *testing.T, ref string) (path string) {
	t.Helper()
	builder := images.Builder{Root: f.root, Out: filepath.Join(f.options.Dir, "images")}
	built, err := builder.Build(t.Context(), images.TestTool)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(built.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "foreign.tar")
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		t.Fatal(err)
	}
	return path
}

// testUpAgain brings a running lab up once more, with one image more.
func (f *fixture) testUpAgain(t *testing.T, c *cluster.Cluster) {
	const ref = "registry.example/somebody/tool:1"
	f.options.Images = []string{f.foreignImage(t, ref)}
	before := processes(t, c)
	again, err := cluster.Up(t.Context(), f.root, f.options)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, processes(t, again)); diff != "" {
		t.Errorf("daemons (-before +after):\n%s", diff)
	}
	startPods(t, again, "foreign", ref)
}

// processes returns the lab's daemons by name.
func processes(t *testing.T, c *cluster.Cluster) map[string]int {
	t.Helper()
	pids := maps.Collect(c.Daemons())
	if len(pids) < 4+3*len(c.Nodes()) {
		t.Fatalf("only %v run", pids)
	}
	return pids
}

func TestDown_HalfStartedLab_Cleaned(t *testing.T) {
	for _, test := range []struct {
		line   string
		guests int
	}{
		{"making 2 nodes", 0},
		{"starting the control plane", 0},
		{"starting the control plane", 1}, // the virtual machine is starting
		{"the API server is ready", 0},
		{"starting the kubelets", 0},
		{"waiting for cluster DNS", 0},
	} {
		t.Run(fmt.Sprintf("stopped when it said: %s, with %d virtual machines", test.line, test.guests), func(t *testing.T) {
			if test.guests > 0 {
				soak.Only(t)
			}
			f := newFixture(t)
			f.options.Topology.Guests = test.guests
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options := f.options
			reached := false
			options.Progress = func(line string) {
				if strings.HasPrefix(line, test.line) {
					reached = true
					cancel()
				}
			}
			if _, err := cluster.Up(ctx, f.root, options); err == nil {
				t.Error("it came up although it was stopped")
			}
			if !reached {
				t.Fatalf("it never said %q", test.line)
			}
			f.down(t)
		})
	}
}
