// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// pair has two pods of two nodes that speak with each other alone. So packets between them go
// directly only once they have spoken.
type pair struct{ client, server *corev1.Pod }

// pairs makes count pairs of pods that have not spoken yet.
func (e *env) pairs(t *testing.T, tenant *scene.Tenant, count int) (list []pair) {
	t.Helper()
	var pods []*corev1.Pod
	for i := range count {
		p := pair{
			tenant.Pod(fmt.Sprintf("client-%d", i), scene.OnNode(e.plain[0])),
			tenant.Pod(fmt.Sprintf("server-%d", i), scene.OnNode(e.plain[1]), scene.WithNIC(fmt.Sprintf(`{"subnet": "net%d"}`, 1+i%2))),
		}
		pods, list = append(pods, p.client, p.server), append(list, p)
	}
	e.Run(t, pods...)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	return list
}

// steady is traffic that goes directly: it needs no member of a role.
type steady struct {
	flows       []*flow
	load        *stage.Running
	connections report.Connections
}

func (e *env) steady(t *testing.T, tenant *scene.Tenant, p pair) *steady {
	t.Helper()
	c := e.tap(t, tenant, direct)
	for _, v6 := range []bool{false, true} {
		e.goDirectly(t, c, p.client, p.server, v6)
	}
	s := &steady{flows: []*flow{e.stream(t, p.client, p.server, false), e.stream(t, p.client, p.server, true)}}
	at := net.JoinHostPort(scene.IP(p.server, false).String(), strconv.Itoa(report.PortEcho))
	s.load = e.begin(t, p.client, &s.connections, "connections", at, "--rate", "50")
	return s
}

// undisturbed ends steady traffic and requires that nothing of it was lost.
func (e *env) undisturbed(t *testing.T, s *steady) {
	t.Helper()
	for _, f := range s.flows {
		e.unharmed(t, f)
	}
	e.lossless(t, s.load, &s.connections)
}

// spoke has pairs speak for the first time, all at once, requires that each gets through, and
// returns how long the slowest took until its first answer to an echo request each
// millisecond, the start of the command included.
func (e *env) spoke(t *testing.T, pairs []pair) (slowest time.Duration) {
	t.Helper()
	type outcome struct {
		took time.Duration
		err  error
	}
	outcomes := make(chan outcome)
	for i, p := range pairs {
		ctx, target := stage.Within(t, stage.Patience), scene.IP(p.server, i%2 == 1).String()
		go func() {
			began := time.Now()
			out, err := e.Exec(ctx, p.client, scene.Tool, "await", target, "--interval", "1ms", "--timeout", "1m")
			var first report.FirstReply
			err = errors.Join(err, json.Unmarshal([]byte(out), &first))
			outcomes <- outcome{first.At.Sub(began), err}
		}()
	}
	for range pairs {
		o := <-outcomes
		if o.err != nil {
			t.Errorf("a pair that speaks for the first time: %v", o.err)
		}
		slowest = max(slowest, o.took)
	}
	for _, p := range pairs {
		results, err := e.Ask(stage.Within(t, stage.Patience), p.client, time.Minute, slices.Collect(maps.Keys(stage.WantPod(p.server)))...)
		answered(t, p.client.Name, results, err)
	}
	return slowest
}

// TestBouncer_CutOffUnderLoad_OtherTakesOver cuts the node of one of two bouncers off, long before
// the cluster can notice. Packets that go directly do not notice it. Others are sent again, over
// the other bouncer. First come the packets of nodes that look addresses up, so that the first
// packet which gets through is the last one to need a bouncer. Then come the packets of nodes that
// can't.
func TestBouncer_CutOffUnderLoad_OtherTakesOver(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, tenant("cut", 2, 0))
	pairs := e.pairs(t, tenant, 9)
	e.served(t, tenant, e.eligible, nil)
	s, c := e.steady(t, tenant, pairs[0]), e.tap(t, tenant, toBouncer)
	t.Logf("with both bouncers, the slowest of 2 pairs had its first answer after %s", e.spoke(t, pairs[1:3]))
	dead := e.eligible[1]
	e.cut(t, dead)
	c.hops(t)
	t.Logf("with a bouncer cut off, the slowest of 4 pairs had its first answer after %s", e.spoke(t, pairs[3:7]))
	thaw := e.freeze(t, e.plain...)
	t.Logf("without lookups besides, the slowest of 2 pairs had its first answer after %s", e.spoke(t, pairs[7:]))
	if sent := c.hops(t); !slices.Contains(sent, hop(e.plain[0], dead, toBouncer)) && !slices.Contains(sent, hop(e.plain[1], dead, toBouncer)) {
		t.Errorf("of %d packets none was sent to the bouncer that is cut off, so nothing had to be sent again", len(sent))
	}
	thaw()
	e.undisturbed(t, s)
}

// cut cuts a node off until the end of the test.
func (e *env) cut(t *testing.T, node string) {
	t.Helper()
	if err := e.Lab.CutLink(node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Lab.RestoreLink(node); err != nil {
			t.Error(err)
		}
		e.whole(t)
	})
}

// freeze stops the daemons of nodes, so that these look nothing up. thaw lets them go on.
func (e *env) freeze(t *testing.T, nodes ...string) (thaw func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(2*stage.Patience))
	t.Cleanup(cancel)
	for _, node := range nodes {
		if err := e.Lab.StopDaemon(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	thaw = sync.OnceFunc(func() {
		t.Helper()
		for _, node := range nodes {
			if err := e.Lab.ResumeDaemon(ctx, node); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// whole waits until all nodes are Ready and all daemons serve.
func (e *env) whole(t *testing.T) {
	t.Helper()
	ctx := stage.Within(t, 2*stage.Patience)
	err := e.Lab.WaitNodesReady(ctx)
	if err == nil {
		err = e.Lab.WaitDaemonSetReady(ctx, cluster.SystemNamespace, daemonSet)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// daemonSet is the name of the daemon's.
const daemonSet = "alioth-cnid"

// TestMembers_RebootedTogether_TablesWhole reboots the nodes of all bouncers and dividers at the
// same time. Without any member, a node still looks addresses up, and then needs none. When the
// members are back, they have whole tables again, and lead the packets of nodes that look nothing
// up.
func TestMembers_RebootedTogether_TablesWhole(t *testing.T) {
	soak.Only(t)
	e := start(t)
	tenant := e.Tenant(t, tenant("rebooted", 2, 2))
	pairs := e.pairs(t, tenant, 4)
	e.served(t, tenant, e.eligible, e.eligible)
	s := e.steady(t, tenant, pairs[0])
	e.reboot(t, e.eligible, func() {
		t.Logf("without any member, the first answer came after %s", e.spoke(t, pairs[1:2]))
		thaw := e.freeze(t, e.plain...)
		e.silent(t, pairs[2].client, scene.IPs(pairs[2].server)...)
		thaw()
	})
	e.whole(t)
	e.served(t, tenant, e.eligible, e.eligible)
	c, thaw := e.tap(t, tenant, toDivider), e.freeze(t, e.plain...)
	t.Logf("over members that were rebooted, the first answer came after %s", e.spoke(t, pairs[3:]))
	thaw()
	if len(c.hops(t)) == 0 {
		t.Error("no packet went over a member")
	}
	e.spoke(t, pairs[2:3])
	e.undisturbed(t, s)
}

// reboot pulls the plug of nodes, calls meanwhile, and boots them again.
func (e *env) reboot(t *testing.T, nodes []string, meanwhile func()) {
	t.Helper()
	ctx := stage.Within(t, 3*stage.Patience)
	for _, node := range nodes {
		if err := e.Lab.PowerOff(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, node := range nodes {
			if err := e.Lab.PowerOn(ctx, node); err != nil {
				t.Fatal(err)
			}
		}
		for _, node := range nodes {
			e.waits(t, "the daemon of "+node+" to have programmed it", func(ctx context.Context) (bool, string, error) {
				dump, err := e.Dump(ctx, node)
				return dump.Programmed, dump.Problem, err
			})
		}
	}()
	meanwhile()
}

// TestDaemonRollOut_PodsCommunicate_NothingLost replaces the daemons of all nodes while pods speak
// with each other, some of them for the first time. Members keep their tables.
func TestDaemonRollOut_PodsCommunicate_NothingLost(t *testing.T) {
	soak.Only(t)
	e := start(t)
	tenant := e.Tenant(t, tenant("rolled", 2, 1))
	pairs := e.pairs(t, tenant, 7)
	s := e.steady(t, tenant, pairs[0])
	ctx := stage.Within(t, 2*stage.Patience)
	set, err := e.Lab.Client().AppsV1().DaemonSets(cluster.SystemNamespace).Get(ctx, daemonSet, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Lab.Kubectl(ctx, "-n", cluster.SystemNamespace, "rollout", "restart", "daemonset/"+daemonSet); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range e.Lab.Nodes() {
		e.replaced(t, set.Generation, i+1)
		t.Logf("with %d new daemons, the first answer came after %s", i+1, e.spoke(t, pairs[1+i:2+i]))
	}
	e.whole(t)
	e.spoke(t, pairs[5:])
	e.undisturbed(t, s)
}

// replaced waits until a number of nodes have a new daemon, or are about to start it.
func (e *env) replaced(t *testing.T, generation int64, nodes int) {
	t.Helper()
	e.waits(t, fmt.Sprintf("%d new daemons", nodes), func(ctx context.Context) (bool, string, error) {
		set, err := e.Lab.Client().AppsV1().DaemonSets(cluster.SystemNamespace).Get(ctx, daemonSet, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		status := set.Status
		return status.ObservedGeneration > generation && int(status.UpdatedNumberScheduled) >= nodes, fmt.Sprintf("%+v", status), nil
	})
}
