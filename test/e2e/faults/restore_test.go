// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/docs/typed"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/examples/reader"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// The pages that the test follows, and the folder of etcd's data in them.
const (
	backupPage   = "docs/operate/backup.md"
	disasterPage = "docs/operate/disaster.md"
	dataInPages  = "/var/lib/etcd"
)

// lateNetwork is the Network of a pod that waits for it at the snapshot.
const lateNetwork = "late"

// withFlags are the flags that let revisions of a restored etcd go on.
const withFlags = " --bump-revision 1000000000 --mark-compacted"

// TestEtcd_RestoredWhilePodsRun_PagesHold follows the pages about a restored etcd literally, and
// looks for everything that they promise.
func TestEtcd_RestoredWhilePodsRun_PagesHold(t *testing.T) {
	soak.Only(t)
	for _, c := range []struct {
		name  string
		flags bool
	}{
		{"with revisions that go on", true},
		{"with revisions that come again, and all clients started anew", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := start(t)
			e.quiet(t)
			d := &disaster{env: e, Reader: reader.Reader{Lab: e.Lab, Folder: t.TempDir()}, tools: etcdTools(t)}
			d.yesterday(t)
			flow := d.StartTraffic(stage.Within(t, 4*patience), t, "between pods that stay", d.staying[0], scene.IP(d.staying[1], false))
			d.follow(t, blockOf(t, backupPage, "etcdctl snapshot save"))
			d.today(t)
			d.restore(t, c.flags)
			d.expectPromises(t)
			d.ExpectUnharmed(t, flow)
		})
	}
}

// disaster is a cluster whose etcd is restored, with the pods that the page tells apart.
type disaster struct {
	*env
	reader.Reader
	// tools is a folder with the commands of etcd.
	tools string
	// old is a tenant of the snapshot, lost one whose namespace and pod alone are in it.
	old, lost *scene.Tenant
	// staying run at both times. ended runs at the snapshot, and heir then waits for its
	// address, which it has at the restore. late gets its Network and orphan its VPC after the
	// snapshot, and extra is created after it.
	staying             []*corev1.Pod
	ended, heir         *corev1.Pod
	late, orphan, extra *corev1.Pod
}

// yesterday makes the objects of the snapshot.
func (d *disaster) yesterday(t *testing.T) {
	t.Helper()
	first, second := d.Nodes()
	d.old = d.Tenant(t, stage.Overlapping("yesterday"))
	d.lost = d.halfATenant(t)
	d.staying = d.stayingPods(d.old)
	const ip = `{"ip": "10.10.1.77,fd10:10:0:1::77"}`
	d.ended = d.old.Pod("ended", scene.OnNode(first), scene.WithNIC(ip))
	d.heir = d.old.Pod("heir", scene.OnNode(second), scene.WithNIC(ip))
	d.late = d.old.Pod("late", scene.OnNode(first), scene.InNetwork(lateNetwork))
	d.orphan = d.lost.Pod("orphan", scene.OnNode(second))
	d.Run(t, append(d.staying, d.ended)...)
	d.Make(t, d.heir, d.late, d.orphan)
	for _, waiting := range []*corev1.Pod{d.heir, d.late, d.orphan} {
		d.waits(t, waiting.Name+" to be told why it waits", func(ctx context.Context) (bool, string, error) {
			err := d.Client.Get(ctx, client.ObjectKeyFromObject(waiting), waiting)
			condition := scene.NetworkCondition(waiting)
			return condition != nil && condition.Status == corev1.ConditionFalse && waiting.Spec.NodeName != "", "", err
		})
	}
}

// halfATenant makes the namespace of a tenant alone.
func (d *disaster) halfATenant(t *testing.T) *scene.Tenant {
	t.Helper()
	spec := stage.Overlapping(stage.Unique("lost"))
	tenant := scene.NewTenant(spec)
	d.Make(t, tenant.Namespace)
	if err := d.WaitForAccount(stage.Within(t, patience), tenant.Namespace.Name); err != nil {
		t.Fatal(err)
	}
	if err := d.WaitForAdmission(stage.Within(t, patience), tenant); err != nil {
		t.Fatal(err)
	}
	return tenant
}

// today changes much: a pod ends, another one gets its address, a VPC and pods are new. The restore
// takes away the objects made here.
func (d *disaster) today(t *testing.T) {
	t.Helper()
	ctx := stage.Within(t, patience)
	if err := d.Delete(ctx, d.ended); err != nil {
		t.Fatal(err)
	}
	for _, object := range d.lost.Objects()[1:] {
		if err := d.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := d.Nodes()
	d.extra = d.old.Pod("extra", scene.OnNode(first))
	service := scene.Service(d.old.Namespace.Name, "extra", "staying")
	for _, object := range []client.Object{d.extra, service, d.network()} {
		if err := d.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	d.waitReady(t, d.heir, d.late, d.orphan, d.extra)
	d.expectReach(t, d.staying[0], d.heir, d.late, d.extra)
}

// network returns the network that late waits for.
func (d *disaster) network() *arktosv1.Network {
	return scene.Network(d.old.Namespace.Name, lateNetwork, d.old.VPC.Name)
}

// restore follows the page about disasters: the flags may be left out as it says.
func (d *disaster) restore(t *testing.T, flags bool) {
	t.Helper()
	plane := d.Lab.ControlPlane()
	for _, process := range slices.Backward(plane[:2]) {
		if err := d.Lab.StopProcess(stage.Within(t, patience), process); err != nil {
			t.Fatal(err)
		}
	}
	block := blockOf(t, disasterPage, "etcdutl snapshot restore")
	if !strings.Contains(block.Commands, withFlags) {
		t.Fatalf("the page restores without%s", withFlags)
	}
	if !flags {
		block.Commands = strings.Replace(block.Commands, withFlags, "", 1)
	}
	d.follow(t, block)
	for _, process := range plane[:2] {
		if err := d.Lab.StartProcess(stage.Within(t, patience), process); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(d.Lab.EtcdData() + "-before"); err != nil {
			t.Error(err)
		}
	})
	d.does(t, "the API server to answer", func(ctx context.Context) error {
		return d.Client.List(ctx, &corev1.NodeList{})
	})
	if !flags {
		d.restartClients(t)
	}
}

// restartClients restarts all clients that watch the API, as the page says: Alioth's by its
// commands.
func (d *disaster) restartClients(t *testing.T) {
	t.Helper()
	again := d.Lab.ControlPlane()[2:]
	for _, node := range d.Lab.Nodes() {
		again = append(again, node.Name+"/kubelet")
	}
	for _, process := range again {
		if err := d.Lab.RestartProcess(stage.Within(t, patience), process); err != nil {
			t.Fatal(err)
		}
	}
	d.follow(t, blockOf(t, disasterPage, "kubectl -n alioth-system rollout restart"))
}

// expectPromises requires the page's promises for each pod, in the order of its steps.
func (d *disaster) expectPromises(t *testing.T) {
	t.Helper()
	after := d.Tenant(t, stage.Overlapping("after"))
	first, second := d.Nodes()
	others := []*corev1.Pod{after.Pod("one", scene.OnNode(first)), after.Pod("two", scene.OnNode(second))}
	d.Run(t, others...)
	d.waitReady(t, d.ended)
	compare := blockOf(t, disasterPage, "aliothctl verify")
	d.waits(t, "the pods without an address to be told", func(ctx context.Context) (bool, string, error) {
		out, err := d.Shell(ctx, compare.Step().Commands)
		reported := !slices.ContainsFunc([]*corev1.Pod{d.heir, d.late, d.orphan}, func(pod *corev1.Pod) bool { return !strings.Contains(out, "pod/"+pod.Name) })
		return err == nil && reported, out, nil
	})
	for i, pod := range d.staying {
		d.ExpectAnswers(t, pod, stage.WantPod(d.staying[1-i]))
		d.ExpectAnswers(t, pod, stage.WantPod(d.ended))
		d.ExpectAnswers(t, others[i], stage.WantPod(others[1-i]))
	}
	d.expectDisconnected(t, append(d.staying, d.ended), d.heir, d.late, d.orphan)
	if err := d.Create(stage.Within(t, patience), d.network()); err != nil { // before the page's step 5
		t.Fatal(err)
	}
	for _, pod := range d.staying {
		d.ExpectAnswers(t, pod, stage.WantPod(d.late))
	}
	d.expectUnharmed(t, append(d.staying, d.late)...)
	if err := d.Delete(stage.Within(t, patience), d.heir, d.orphan); err != nil { // the page's step 5
		t.Fatal(err)
	}
	d.quiet(t)
	d.expectClaims(t, d.old.VPC.Name, append(d.staying, d.ended, d.late))
	d.expectClaims(t, after.VPC.Name, others)
	d.ExpectAgreement(t)
}

// expectDisconnected requires that pods do not reach pods of others. A pod that has an address of
// the others reaches itself there.
func (d *disaster) expectDisconnected(t *testing.T, others []*corev1.Pod, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		var targets []string
		for _, other := range others {
			if scene.IP(other, false) != scene.IP(pod, false) {
				targets = append(targets, scene.Targets(scene.Protocols(), scene.IPs(other)...)...)
			}
		}
		results, err := d.Ask(stage.Within(t, patience), pod, waits.Limit(time.Second), targets...)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if result.OK {
				t.Errorf("%s, which has lost its address, reaches %s", pod.Name, result.Target)
			}
		}
	}
}

// follow types a block of a page, where this lab has etcd's data.
func (d *disaster) follow(t *testing.T, block typed.Block) {
	t.Helper()
	block.Before = "cd " + d.Folder + "\nexport PATH=" + d.tools + ":$PATH\n" + block.Before
	step := block.Step()
	step.Commands = strings.ReplaceAll(step.Commands, dataInPages, d.Lab.EtcdData())
	if out, err := d.Shell(stage.Within(t, patience), step.Commands); err != nil {
		t.Fatalf("line %d of the page: %v\n%s", step.Line, err, out)
	}
}

// blockOf returns the block of a page that begins with a text.
func blockOf(t *testing.T, name, begins string) typed.Block {
	t.Helper()
	block, err := typed.Find(root, name, begins)
	if err != nil {
		t.Fatal(err)
	}
	return block
}

// etcdTools returns a folder with etcdctl and etcdutl of the etcd released with Kubernetes.
func etcdTools(t *testing.T) string {
	t.Helper()
	cache, err := build.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	b := build.Builder{Root: sources, Cache: cache}
	bin, err := b.Ensure(t.Context(), build.Etcd())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"etcdctl", "etcdutl"} {
		if err := os.Symlink(filepath.Join(bin, "etcd"), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
