// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cmd/process/garbage"
	"github.com/alioth-net/alioth/cmd/process/guard"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/internal/testpins"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/test/waits"
)

// roleVariable makes the test binary play a part in another network namespace
// instead of running tests.
const roleVariable = "ALIOTH_CNID_TEST_ROLE"

func TestMain(m *testing.M) {
	wayin.Play()
	roles := map[string]func() error{"node": playNode, "daemon": playDaemon, "kubelet": playKubelet, "client": playClient}
	if os.Getenv(roleVariable) == "plugin" {
		playPlugin()
		return
	}
	if play := roles[os.Getenv(roleVariable)]; play != nil {
		go func() {
			_, _ = os.NewFile(3, "parent").Read(make([]byte, 1))
			os.Exit(1)
		}()
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if shims, err = os.MkdirTemp("", "alioth-shim"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(shims)
	return server.Run(m)
}

// script is the input of a node process: its configuration and the rows that stand for
// the API.
type script struct {
	Config     Config
	Uninstall  bool
	VPCs       []store.VPC
	Subnets    []store.Subnet
	Namespaces []store.Namespace
	Networks   []store.Network
	Nodes      []store.Node
	Pods       []store.Pod
	Addresses  []store.Address
	Services   []store.Service
	Slices     []store.EndpointSlice
	External   []external.Address
	Grants     []external.HostAccess
	HostLinks  []multinet.HostLink
	Numbers    []multinet.DomainClaim
	// NoHostLinks deletes the host links that were there before.
	NoHostLinks bool
	// Sandboxes are the namespaces where the test driver looks for its interfaces; without any,
	// the node has no such driver.
	Sandboxes []string
}

// playNode runs a daemon whose API side is a script on standard input.
func playNode() error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var s script
	input := json.NewDecoder(os.Stdin)
	if err := input.Decode(&s); err != nil {
		return err
	}
	if s.Uninstall {
		return Uninstall(ctx, s.Config, log)
	}
	n, err := newNode(ctx, s.Config, s.registry(), log)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.store.Update(s.fill); err != nil {
		return err
	}
	d := newDaemon(n, control{
		sources: readAlready{}, leftOut: readAlready{}, releaser: releaseAtOnce{n.journal, n.held}, reporter: logged{log}, announced: broadcast.Open,
	})
	go func() { // later changes of the API
		for {
			var next script
			if input.Decode(&next) != nil || n.store.Update(next.fill) != nil {
				return
			}
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	return d.run(ctx, group, d.modules())
}

// playDaemon runs the whole daemon.
func playDaemon() error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	var s script
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	garbage.SaveMemory()
	s.Config.Guard = guard.Reviews{}
	return Run(ctx, s.Config, log)
}

// playPlugin runs the CNI plugin, as far as the tests' runtime uses it.
func playPlugin() {
	forward := func(command string) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			result, err := cniapi.Client{Socket: cniapi.SocketIn(args.StdinData)}.Do(context.Background(), cniapi.Request{
				Command: command, ContainerID: args.ContainerID, Netns: args.Netns, IfName: args.IfName,
				Args: args.Args, Path: args.Path, Config: args.StdinData,
			})
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(result)
			return err
		}
	}
	skel.PluginMainFuncs(skel.CNIFuncs{Add: forward("ADD"), Del: forward("DEL"), Check: forward("CHECK")},
		version.PluginSupports(cniapi.Versions()...), "the tests' plugin")
}

// logged is a report that goes to the log.
type logged struct{ log *slog.Logger }

func (l logged) Attached(journal.Pod) {}

func (l logged) Refused(pod journal.Pod, reason, message string) {
	l.log.Warn("refused", "pod", pod.String(), "reason", reason, "message", message)
}

func (l logged) Lost(lost plan.Lost) {
	l.log.Warn("lost", "pod", lost.Record.Pod.String(), "reason", lost.Reason)
}

func (l logged) Closed(c plan.ClosedPort) {
	l.log.Warn("closed", "pod", c.Pod.String(), "reason", c.Refusal.Message)
}

func (l logged) Repaired(list []finding.Repair) { l.log.Warn("repaired", "repairs", list) }

func (l logged) LinksAddressed([]multinet.DeviceAddrs) {}

func (l logged) LinksFailed(list []multinet.LinkFailure) {
	l.log.Warn("host links fail", "failures", list)
}

func (l logged) Problems(list []finding.Problem) { l.log.Warn("problems", "problems", list) }

func (l logged) Restored(pod journal.Pod, cause error) {
	l.log.Warn("restored", "pod", pod.String(), "cause", cause)
}

func (s *script) fill(tx store.Tx) error {
	var failures []error
	for _, row := range s.VPCs {
		failures = append(failures, store.PutVPC(tx, &row))
	}
	for _, row := range s.Subnets {
		failures = append(failures, store.PutSubnet(tx, &row))
	}
	for _, row := range s.Namespaces {
		failures = append(failures, store.PutNamespace(tx, &row))
	}
	for _, row := range s.Networks {
		failures = append(failures, store.PutNetwork(tx, &row))
	}
	for _, row := range s.Nodes {
		failures = append(failures, store.PutNode(tx, &row))
	}
	addresses := slices.Clone(s.Addresses)
	for _, row := range s.Pods {
		failures = append(failures, store.PutPod(tx, &row))
		if row.Attachments != "" {
			list, err := annotations.ParseAttachments(row.Attachments)
			testrows.Configure(addresses, row.UID, list)
			failures = append(failures, err, testrows.PutClaims(tx, &row))
		}
	}
	for _, row := range addresses {
		failures = append(failures, store.PutAddress(tx, &row))
	}
	for _, row := range s.Namespaces {
		failures = append(failures, store.PutNamespace(tx, &row))
	}
	for _, row := range s.Services {
		failures = append(failures, store.PutService(tx, &row))
	}
	for _, row := range s.External {
		failures = append(failures, external.PutAddress(tx, &row))
	}
	if s.NoHostLinks {
		for _, row := range slices.Collect(multinet.HostLinks(tx)) {
			multinet.DeleteHostLink(tx, row.Name, row.UID)
		}
	}
	for _, row := range s.HostLinks {
		failures = append(failures, multinet.PutHostLink(tx, &row))
	}
	for _, row := range s.Numbers {
		failures = append(failures, multinet.PutDomainClaim(tx, &row))
	}
	for _, row := range s.Grants {
		failures = append(failures, external.PutHostAccess(tx, &row))
	}
	for _, row := range s.Slices {
		failures = append(failures, store.PutEndpointSlice(tx, &row))
	}
	return errors.Join(failures...)
}

// playKubelet dials the address in its first argument as the kubelet probes, and prints the
// answer.
func playKubelet() error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", programs.DefaultKubeletPort))
	if err != nil {
		return err
	}
	defer listener.Close()
	dialer := net.Dialer{Timeout: 2 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		var failure error
		err := c.Control(func(fd uintptr) {
			failure = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1})
		})
		return errors.Join(err, failure)
	}}
	conn, err := dialer.Dial("tcp", os.Getenv("TARGET"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// machine is a node: a network namespace with a daemon process in it.
type machine struct {
	ns.NetNS
	cfg    Config
	cgroup string
	daemon *exec.Cmd
	// program is the test binary that plays the daemon, where not this one.
	program string
	// input is the daemon's.
	input  io.WriteCloser
	script script
}

// newMachine prepares a node and everything that its daemon needs to be kept
// apart from others on this host.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{NetNS: testnet.New(t), cfg: DefaultConfig()}
	dir := t.TempDir()
	m.cfg.BPFDir, m.cgroup = testpins.New(t, m)
	m.cfg.NodeName, m.cfg.StateDir, m.cfg.RunDir = name, filepath.Join(dir, "state"), filepath.Join(dir, "run")
	m.cfg.CgroupRoot = m.cgroup
	m.cfg.CNIBinDir, m.cfg.CNIConfDir = filepath.Join(dir, "bin"), filepath.Join(dir, "net.d")
	m.cfg.HealthAddr, m.cfg.MetricsAddr = "127.0.0.1:9471", ""
	m.cfg.Wait = 15 * time.Second
	return m
}

// process prepares the test binary to play a role on this machine.
func (m *machine) process(t *testing.T, role string, variables ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(cmp.Or(m.program, os.Args[0]))
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), variables...)
	return cmd
}

// run starts a process in the machine's network namespace and cgroup.
func (m *machine) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	m.runIn(t, m.NetNS, cmd)
}

// runIn starts a process in a network namespace and the machine's cgroup.
func (m *machine) runIn(t *testing.T, space ns.NetNS, cmd *exec.Cmd) {
	t.Helper()
	group, err := os.Open(m.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	// The process ends when the other end of this pipe does: with this one,
	// however it ends.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.ExtraFiles = []*os.File{read}
	t.Cleanup(func() { write.Close() })
	testnet.In(t, space, cmd.Start)
}

// start starts the daemon and waits until it wants pods.
func (m *machine) start(t *testing.T) {
	t.Helper()
	m.launch(t)
	m.awaitConflist(t)
}

// launch starts the daemon: the whole one if it has an API server.
func (m *machine) launch(t *testing.T) {
	t.Helper()
	role := "node"
	if m.cfg.Kubeconfig != "" {
		role = "daemon"
	}
	m.daemon = m.process(t, role)
	var err error
	if m.input, err = m.daemon.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// The log is a part of its own test's output, as labs run side by side. A process that
	// the daemon has started may have the log open for longer than the daemon.
	m.daemon.Stderr, m.daemon.WaitDelay = t.Output(), 5*time.Second
	if err := m.saveConflist(); err != nil {
		t.Fatal(err)
	}
	m.run(t, m.daemon)
	t.Cleanup(func() { m.stop(unix.SIGKILL) })
	m.say(t, m.script)
}

// say sends the daemon the objects of the API: at first all, later the changes.
func (m *machine) say(t *testing.T, s script) {
	t.Helper()
	if _, err := io.Copy(m.input, m.encode(t, s)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) conflist() string { return filepath.Join(m.cfg.CNIConfDir, cnidir.ConflistName) }

// saveConflist puts the CNI configuration where cni finds it and the daemon
// has to write it anew.
func (m *machine) saveConflist() error {
	err := os.Rename(m.conflist(), m.conflist()+".last")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (m *machine) awaitConflist(t *testing.T) {
	t.Helper()
	eventually(t, "the daemon writes the CNI configuration", func() error {
		_, err := os.Stat(m.conflist())
		return err
	})
}

func (m *machine) encode(t *testing.T, s script) io.Reader {
	t.Helper()
	s.Config = m.cfg
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(string(text))
}

func (m *machine) stop(signal os.Signal) {
	if m.daemon == nil {
		return
	}
	_ = m.daemon.Process.Signal(signal)
	_ = m.daemon.Wait()
	m.daemon = nil
}

// uninstall runs the step that takes everything away.
func (m *machine) uninstall(t *testing.T) {
	t.Helper()
	cmd := m.process(t, "node")
	cmd.Stdin = m.encode(t, script{Uninstall: true})
	var output strings.Builder
	cmd.Stderr = &output
	m.run(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, output.String())
	}
}

// probe asks as the kubelet does; it returns the answer.
func (m *machine) probe(t *testing.T, target string) (string, error) {
	t.Helper()
	cmd := m.process(t, "kubelet", "TARGET="+target)
	var output, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &errs
	m.run(t, cmd)
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%w: %s", err, errs.String())
	}
	return output.String(), nil
}

// playClient connects to the address in its first argument, and prints the apparent address of its
// peer and the answer.
func playClient() error {
	conn, err := net.DialTimeout("tcp", os.Getenv("TARGET"), patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	name, err := bufio.NewReader(conn).ReadString('\n')
	_, failure := fmt.Fprint(os.Stdout, conn.RemoteAddr(), " is ", strings.TrimSpace(name))
	return errors.Join(err, failure)
}

// eventually waits for a condition. The test does not judge the duration; the limit only keeps a
// failing test from hanging.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	waits.Until(t, time.Minute, what, check)
}

// readAlready stands for sources that have read everything.
type readAlready struct{}

// LeftOut implements descriptor.Source.
func (readAlready) LeftOut() []descriptor.LeftOut { return nil }

func (readAlready) Synced() (bool, <-chan struct{})       { return broadcast.Open() }
func (readAlready) DomainSynced(string) broadcast.Gate    { return broadcast.Open }
func (readAlready) NamespaceSynced(string) broadcast.Gate { return broadcast.Open }
func (readAlready) VPCs() []string                        { return nil }
func (readAlready) Tables() *tablesync.Tables             { return nil }
