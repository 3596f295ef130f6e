// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	driver "github.com/alioth-net/alioth/cnid/cni/drivers/otherplugin"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/test/waits"
)

// ofNetworks returns decisions about interfaces net1, net2 and so on in networks of DANM, each by
// the configuration of its plugins.
func ofNetworks(t *testing.T, confs ...string) (list []attachment.Decision) {
	t.Helper()
	for i, text := range confs {
		conf := build(t, text, nil)
		conf.InOrder = false
		list = append(list, delegated(fmt.Sprintf("net%d", i+1), conf))
	}
	return list
}

// bridgeOf returns a configuration with addresses of its own, by the number of its bridge.
func (r *rig) bridgeOf(i int) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br%d","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.%d.0/24"}]]}}`,
		i, filepath.Join(r.dir, "leases"), i)
}

// fake returns a configuration of the plugin for tests, with a log by the name of its network.
func (r *rig) fake(t *testing.T, name string, do map[string]delegatetest.Behaviour) string {
	t.Helper()
	text, err := json.Marshal(delegatetest.Conf{CNIVersion: "1.0.0", Type: "fake", Log: r.log(name), Do: do})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (r *rig) log(name string) string { return filepath.Join(r.dir, "log-"+name) }

// ran returns the commands of a fake plugin.
func (r *rig) ran(t *testing.T, name string) (commands []string) {
	t.Helper()
	for _, call := range delegatetest.Calls(t, r.log(name)) {
		commands = append(commands, call.Command())
	}
	return commands
}

func (r *rig) establish(t *testing.T, m *attachment.Manager) (list []attachment.Attached, err error) {
	t.Helper()
	r.node.Do(t, func() error {
		list, err = m.Establish(t.Context(), requestFor(r.pod.Path))
		return nil
	})
	return list, err
}

func requestFor(netns string) attachment.Request {
	return attachment.Request{
		Key: journal.Key{ContainerID: "sandbox", IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"},
		Network: "alioth", NetnsPath: netns,
	}
}

// meeting is a driver whose ADDs go on once a number of them are at the same time.
type meeting struct {
	ifdriver.Finisher
	want int32
	at   *atomic.Int32
	all  chan struct{}
}

func (m meeting) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	if m.at.Add(1) == m.want {
		close(m.all)
	}
	select {
	case <-m.all:
		return m.Finisher.Attach(ctx, spec)
	case <-ctx.Done():
		return ifdriver.Link{}, fmt.Errorf("%s waits for the others: %w", spec.IfName, ctx.Err())
	}
}

// DANM attaches a pod to all its networks at the same time, and gives the interfaces in the
// order of the pod's list.
func TestOtherPlugin_SeveralNetworks_MadeInParallel(t *testing.T) {
	r := newRig(t)
	const number = 5 // more than a pod has slots
	finisher, ok := r.Driver.(ifdriver.Finisher)
	if !ok {
		t.Fatal("the driver finishes nothing")
	}
	own := attachmenttest.Driver{Sandboxes: func() []string { return []string{r.pod.Path} }}
	m, j, control := r.managerOf(t, ifdriver.Drivers{
		driver.Kind: meeting{finisher, number, &atomic.Int32{}, make(chan struct{})}, attachmenttest.Kind: own,
	}, false)
	var confs []string
	for i := range number {
		confs = append(confs, r.bridgeOf(i+1))
	}
	control.decided = append(ofNetworks(t, confs...), attachment.Decision{
		Attachment: "eth0", Binding: journal.Binding{Outside: "physical"},
		Interface: journal.Interface{
			Kind: attachmenttest.Kind, MAC: journal.MAC{2, 0, 0, 0, 7, 7}, Config: netif.Config{MTU: 1500},
		},
	})
	list, err := r.establish(t, m)
	if err != nil || len(list) != number+1 || len(r.leases(t)) != number {
		t.Fatalf("made are %d, %v, leases %v", len(list), err, r.leases(t))
	}
	for i, one := range list[:number] {
		want := fmt.Sprintf("192.0.%d.2/24", i+1)
		if one.IfName != fmt.Sprintf("net%d", i+1) || len(one.Link.Result.Addrs) != 1 || one.Link.Result.Addrs[0].Addr.String() != want {
			t.Errorf("interface %d is %s with %+v, want %s", i, one.IfName, one.Link.Result, want)
		}
	}
	r.node.Do(t, func() error { return m.Remove(t.Context(), requestFor("").Key) })
	if kept := r.kept(t); len(j.Records()) > 0 || len(r.leases(t)) > 0 || len(kept) > 0 {
		t.Errorf("left are records %+v, leases %v, files %v", j.Records(), r.leases(t), kept)
	}
}

// Each failure is told, and each interface that was tried is undone, although others fail or
// hang. Interfaces that can't be undone are remembered.
func TestOtherPlugin_SeveralFailures_AllToldAndUndone(t *testing.T) {
	hang := map[string]delegatetest.Behaviour{"ADD": delegatetest.Hang}
	fails := map[string]delegatetest.Behaviour{"ADD": delegatetest.Error}
	stuck := map[string]delegatetest.Behaviour{"ADD": delegatetest.Silent, "DEL": delegatetest.Hang}
	for name, c := range map[string]struct {
		confs func(*testing.T, *rig) []string
		says  []string
		kept  []string
	}{
		"two of three fail": {
			func(t *testing.T, r *rig) []string {
				return []string{r.fake(t, "a", fails), r.bridgeOf(1), `{"cniVersion":"1.0.0","type":"macvlan","master":"none","ipam":{}}`}
			},
			[]string{"2 interfaces failed: attach net1 of ns/p: CNI plugin fake: ADD failed: try again; the pool is empty", "; attach net3 of ns/p: CNI plugin macvlan: ADD failed: Link not found"},
			nil,
		},
		"one hangs and one fails": {
			func(t *testing.T, r *rig) []string {
				return []string{r.fake(t, "a", hang), r.bridgeOf(1), r.fake(t, "c", fails)}
			},
			[]string{"2 interfaces failed", "attach net1 of ns/p: CNI plugin fake: ADD did not end in time", "; attach net3 of ns/p: CNI plugin fake: ADD failed: try again"},
			nil,
		},
		"a DEL hangs": {
			func(t *testing.T, r *rig) []string {
				return []string{r.fake(t, "a", stuck), r.bridgeOf(1), r.fake(t, "c", fails)}
			},
			[]string{"2 interfaces failed", "attach net1 of ns/p", "attach net3 of ns/p", "undoing it failed, a DEL will try again", "DEL did not end in time"},
			[]string{"net1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.edit = func(cfg *delegate.Config) {
				cfg.Wait, cfg.UndoWait = waits.Limit(2*time.Second), waits.Limit(2*time.Second)
			}
			r.open(t)
			m, j, control := r.manager(t, false)
			control.decided = ofNetworks(t, c.confs(t, r)...)
			_, err := r.establish(t, m)
			for _, part := range c.says {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q", err, part)
				}
			}
			var kept []string
			for _, one := range r.kept(t) {
				kept = append(kept, one.IfName)
			}
			var records []string
			for _, rec := range j.Records() {
				records = append(records, rec.IfName)
			}
			if !slices.Equal(kept, c.kept) || !slices.Equal(records, c.kept) || len(r.leases(t)) != 0 {
				t.Errorf("left are files %v, records %v, leases %v; want those of %v alone", kept, records, r.leases(t), c.kept)
			}
		})
	}
}

// TestDEL_OnePodHangs_OthersProceed: the reconciler removes dead pods side by side.
func TestDEL_OnePodHangs_OthersProceed(t *testing.T) {
	r := newRig(t)
	r.edit = func(cfg *delegate.Config) { cfg.UndoWait = time.Hour } // never reached
	r.open(t)
	// A device without a driver in the kernel needs no interface.
	result := fmt.Sprintf(`{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":%q,"pciID":"0000:03:02.1"}]}`, r.pod.Path)
	text, err := json.Marshal(delegatetest.Conf{
		CNIVersion: "1.0.0", Type: "fake", Log: r.log("hangs"), Do: map[string]delegatetest.Behaviour{"DEL": delegatetest.Hang}, Result: []byte(result),
	})
	if err != nil {
		t.Fatal(err)
	}
	hangs := r.spec(build(t, string(text), nil))
	if _, err := r.attach(t, hangs); err != nil {
		t.Fatal(err)
	}
	works := r.spec(build(t, r.bridgeOf(1), nil))
	works.ContainerID = "second"
	works.IfName = "net2"
	if _, err := r.attach(t, works); err != nil {
		t.Fatal(err)
	}
	m, j, _ := r.manager(t, true)
	second := journal.Record{
		Identity: journal.Identity{
			Key:       journal.Key{ContainerID: "second", IfName: "net2"},
			Pod:       journal.Pod{Namespace: "ns", Name: "q", UID: "uid2"},
			NetnsPath: r.pod.Path,
		},
		Binding: journal.Binding{Outside: "NetworkAttachmentDefinition ns/storage"}, Interface: journal.Interface{Kind: driver.Kind},
	}
	if _, err := j.Begin(second); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go r.node.Do(t, func() error {
		ended <- m.Reconcile(t.Context())
		return nil
	})
	waits.True(t, 20*time.Second, "the second pod is removed", func() bool {
		return len(r.leases(t)) == 0 && len(j.Records()) == 1
	})
	var calls []delegatetest.Call
	waits.True(t, 20*time.Second, "the DEL of the first one hangs", func() bool {
		calls = delegatetest.Calls(t, r.log("hangs"))
		return len(calls) == 2
	})
	for _, pid := range calls[1].Pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "DEL failed") {
		t.Errorf("the DEL that was killed: %v", err)
	}
	if records := j.Records(); len(records) != 1 || records[0].ContainerID != "sandbox" || records[0].Phase != journal.PhaseLeaving {
		t.Errorf("left are %+v", records)
	}
}

// daemonOf is the environment variable that makes this program a daemon with a directory of
// state, the namespace of a pod, and the configurations of its interfaces, in JSON.
const daemonOf = "ALIOTH_TEST_DAEMON"

type daemonInput struct {
	Dir, Netns string
	Confs      []string
}

// daemon returns only after a failure: the test kills it while the plugins run.
func daemon(text string) error {
	var in daemonInput
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	d, err := delegate.New(delegate.Config{
		Dir: filepath.Join(in.Dir, "delegates"), Plugins: []string{filepath.Join(in.Dir, "bin")}, Root: "/", Wait: time.Hour, Log: log,
	})
	if err != nil {
		return err
	}
	plugins, err := driver.New(d, host.ConfDir{})
	if err != nil {
		return err
	}
	j, err := journal.Open(context.Background(), journal.Config{Path: filepath.Join(in.Dir, "journal.log"), Log: log})
	if err != nil {
		return err
	}
	control := &released{}
	for i, conf := range in.Confs {
		control.decided = append(control.decided, delegated(fmt.Sprintf("net%d", i+1), &ifdriver.Delegate{Conf: []byte(conf)}))
	}
	_, err = attachment.New(attachment.Config{
		Journal: j, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()), EstablishWait: time.Hour,
		Drivers: ifdriver.Drivers{driver.Kind: plugins}, Decisions: control, Datapath: control, Releaser: control,
	}).Establish(context.Background(), requestFor(in.Netns))
	return err
}

// TestOtherPlugin_DaemonKilled_NothingLeft: each interface that it tried has its DEL by the next
// one, also if a DEL fails at first.
func TestOtherPlugin_DaemonKilled_NothingLeft(t *testing.T) {
	r := newRig(t)
	names := []string{"a", "b", "c"}
	in := daemonInput{Dir: r.dir, Netns: r.pod.Path}
	for _, name := range names {
		in.Confs = append(in.Confs, string(build(t, r.fake(t, name, map[string]delegatetest.Behaviour{"ADD": delegatetest.Hang}), nil).Conf))
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command("/proc/self/exe")
	first.Env, first.Stderr = []string{daemonOf + "=" + string(text)}, os.Stderr
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	waits.True(t, 20*time.Second, "all plugins run", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return len(r.ran(t, name)) == 0 })
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	for _, name := range names {
		_ = unix.Kill(delegatetest.Calls(t, r.log(name))[0].Pids[1], unix.SIGKILL) // the plugin's child; in a pod it ends with the container
	}
	r.open(t)
	m, j, _ := r.manager(t, false)
	if found := r.kept(t); len(found) != len(names) || len(j.Records()) != len(names) {
		t.Fatalf("the next daemon knows %+v and the records %+v", found, j.Records())
	}
	r.reconcile(t, m)
	for _, name := range names {
		if got := r.ran(t, name); !slices.Equal(got, []string{"ADD", "DEL"}) {
			t.Errorf("plugin %s ran %v", name, got)
		}
	}
	if kept := r.kept(t); len(kept) != 0 || len(j.Records()) != 0 {
		t.Errorf("left are files %v, records %+v", kept, j.Records())
	}
}
