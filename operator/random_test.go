// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/soak"
)

const (
	// numbers of episodes, and of steps in each. After each episode everything is at rest, and
	// checked. Half of them have a thief, and each other one of the rest a forger.
	manyEpisodes, episodes, episodeSteps = 600, 12, 1000
	// podNames are used again and again, as StatefulSets do.
	podNames = 8
	// nested bounds how many requests wait for each other.
	nested = 3
)

// chaos is a world where anything happens at any time. Other processes go on between a request and
// its effect, and between the effect and its answer.
type chaos struct {
	*world
	rand  *rand.Rand
	depth int
	calm  bool
	// did counts the results.
	did map[string]int
	// backup is an earlier state of the API, and when it was taken.
	backup map[apiKey]client.Object
}

// TestOperator_RandomEvents_InvariantsHold runs operators, daemons and pods through crashes, node losses,
// lost and late requests, deletions by people, and restored backups. In every other
// episode an attacker writes with the token of a node's daemon, and in each other one of
// the rest a tenant writes the status of its pods. ALIOTH_SEED repeats a run,
// ALIOTH_EPISODES sets how many episodes it has.
func TestOperator_RandomEvents_InvariantsHold(t *testing.T) {
	seed, count := uint64(time.Now().UnixNano()), 0
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = given
	}
	if text := os.Getenv("ALIOTH_EPISODES"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		count = given
	} else {
		count = soak.Or(t, manyEpisodes, episodes)
	}
	did := map[string]int{}
	for episode := range count {
		one := seed + uint64(episode)
		c := &chaos{world: newWorld(t), rand: rand.New(rand.NewPCG(one, 1))}
		c.intercept = c.disturb
		c.note("ALIOTH_SEED=%d ALIOTH_EPISODES=1 repeats this", one)
		c.t = seeded{t, one}
		c.did = did
		c.thief, c.forger = one%2 == 1, one%4 == 0
		c.run()
	}
	t.Logf("%d steps, ALIOTH_SEED=%d: %v", count*episodeSteps, seed, did)
}

// seeded prints how to repeat a failure.
type seeded struct {
	testing.TB
	seed uint64
}

// Fatalf implements testing.TB.
func (s seeded) Fatalf(format string, args ...any) {
	s.Helper()
	s.TB.Fatalf("ALIOTH_SEED=%d ALIOTH_EPISODES=1 repeats this: %s", s.seed, fmt.Sprintf(format, args...))
}

func (c *chaos) run() {
	c.calm = true
	c.operate()
	c.furnish(2)
	c.balance()
	if c.forger {
		c.addVictim()
	}
	c.settle()
	c.calm = false
	c.operate()
	for range episodeSteps {
		if c.thief && c.rand.IntN(20) == 0 {
			c.abuse()
		}
		if c.forger && c.rand.IntN(20) == 0 {
			c.forgery()
		}
		c.step()
		c.check()
	}
	c.rest()
}

// rest lets calm come back and checks the remaining state.
func (c *chaos) rest() {
	c.calm = true
	for _, h := range c.hosts {
		if !h.up {
			c.repair(h)
		}
		c.returnToService(h)
	}
	for len(c.operators) > 1 { // in the end one leads
		c.crash(c.operators[0])
	}
	c.settle()
	c.checkAtRest()
}

// step is an event of the system, or an action of a person.
func (c *chaos) step() {
	c.clock = c.clock.Add(time.Duration(c.rand.IntN(20)) * time.Millisecond)
	switch n := c.rand.IntN(100); {
	case n < 84:
		c.byItself()
	case n < 87 && c.answered():
		c.clock = c.clock.Add(time.Duration(c.rand.IntN(3000)) * time.Millisecond)
	default:
		c.somebody()
	}
}

// answered reports whether all nodes that are up have answered the last call. The test must not let
// a call run out before: later steps are allowed to go wrong then.
func (c *chaos) answered() bool {
	question, ok := c.api.objects[keyOf(&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorRollCall}})].(*v1alpha1.RollCall)
	if !ok {
		return false
	}
	for _, h := range c.hosts {
		answer, ok := c.api.objects[keyOf(&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(h.name)}})].(*v1alpha1.RollCall)
		if h.up && (!ok || answer.Spec.Call != question.Spec.Call) {
			return false
		}
	}
	return true
}

// byItself lets one process do something, and mostly hear news first.
func (c *chaos) byItself() {
	processes := []interface {
		choices() []work
		news() *informers
	}{}
	for _, o := range c.operators {
		processes = append(processes, o, o)
	}
	for _, h := range c.hosts {
		processes = append(processes, h)
	}
	process := processes[c.rand.IntN(len(processes))]
	c.hear(process.news())
	if one, ok := pick(c, process.choices()); ok {
		c.do(one)
	}
}

// hear takes in some news.
func (c *chaos) hear(news *informers) {
	for range c.rand.IntN(8) {
		if i := news.all[c.rand.IntN(len(news.all))]; i.behind() {
			i.hear()
		}
	}
}

// disturb lets others go on around a request, and now and then keeps it from
// its effect or its answer.
func (c *chaos) disturb(_ string, o *instance, verb string, object client.Object, effect func() error) error {
	if c.calm {
		return effect()
	}
	meanwhile := func() {
		if c.depth >= nested {
			return
		}
		c.depth++
		defer func() { c.depth-- }()
		steps := 0
		switch n := c.rand.IntN(60); {
		case n == 0: // paused for long
			steps = 40
		case n < 20:
			steps = 1 + c.rand.IntN(3)
		}
		for range steps {
			c.step()
		}
	}
	meanwhile()
	if o != nil && o.dead() {
		return errKilled
	}
	fate := passes
	if isWrite(verb) && c.rand.IntN(12) == 0 {
		fate = outcome(c.rand.IntN(int(outcomes)))
	}
	err := c.meets(fate, o, object, effect)
	if verb == fromCache && o != nil {
		c.hear(o.news()) // the data read may be out of date by now
	}
	if isWrite(verb) {
		what := verb + " " + group(object).Resource
		if err != nil {
			what = "failed " + what
		}
		c.did[what]++
	}
	meanwhile()
	return err
}

// an action of a person.
func (c *chaos) somebody() {
	actions := []func(){
		c.makePod, c.makePod, c.makePod, c.makePod, c.makePod, c.makePod, c.endPod, c.endPod, c.endPod, c.forcePod, c.finishPod,
		c.restartSandbox, c.loseNode, c.fenceNode, c.crashOperator, c.secondOperator, c.relist, c.repeat,
		c.makeService, c.makeService, c.deleteService, c.changeService, c.changePool,
		c.deleteAddresses, c.deleteVNIClaim, c.deleteRange, c.makeRange, c.moveNetwork, c.moveNamespace, c.takeBackup, c.restoreBackup,
	}
	actions[c.rand.IntN(len(actions))]()
}

func pick[T any](c *chaos, all []T) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[c.rand.IntN(len(all))], true
}

func (c *chaos) makePod() {
	nics := []string{"", "", `{"ip": "10.0.1.9"}`, `{"ip": "10.0.2.4"}`, `{"subnet": "net2"}`, `{"subnet": "net2"}`}
	networks := []string{"red", "red", "red", "blue", ""}
	h := c.hosts[c.rand.IntN(len(c.hosts))]
	if !h.up {
		return
	}
	network := networks[c.rand.IntN(len(networks))]
	nic := nics[c.rand.IntN(len(nics))]
	if network == "" {
		nic = ""
	}
	pod := bound(fmt.Sprintf("web-%d", c.rand.IntN(podNames)), network, nic, h.name)
	if _, exists := c.api.objects[keyOf(pod)]; exists {
		return
	}
	c.note("pod %s is made on %s", pod.Name, h.name)
	c.create(pod)
}

func (c *chaos) somePod() (*corev1.Pod, bool) { return pick(c, sorted[*corev1.Pod](c.api)) }

func (c *chaos) endPod() {
	if pod, ok := c.somePod(); ok && pod.DeletionTimestamp == nil {
		c.note("pod %s is deleted", pod.Name)
		c.api.markDeleting(pod)
	}
}

// forcePod deletes a pod without asking its node. A person who deletes the Addresses of a living
// sandbox too vouches for it, so this does not follow that.
func (c *chaos) forcePod() {
	pod, ok := c.somePod()
	if !ok {
		return
	}
	for _, h := range c.hosts {
		for _, s := range h.sandboxes {
			if s.uid == pod.UID && c.lacks(s) {
				return
			}
		}
	}
	c.note("pod %s is deleted by force", pod.Name)
	c.api.drop(pod)
}

// lacks reports whether an Address of a sandbox is missing in the API.
func (c *chaos) lacks(s *sandbox) bool {
	for _, ip := range s.ips {
		if _, ok := c.api.objects[keyOf(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(s.attachment.VPC, ip)}})]; !ok {
			return true
		}
	}
	return false
}

func (c *chaos) finishPod() {
	if pod, ok := c.somePod(); ok {
		c.note("pod %s finishes", pod.Name)
		edit(c.world, pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	}
}

func (c *chaos) restartSandbox() {
	h := c.hosts[c.rand.IntN(len(c.hosts))]
	if s, ok := pick(c, h.sandboxes); ok && h.up {
		c.note("sandbox %s dies", s.id)
		s.wantsRestart = true
	}
}

func (c *chaos) loseNode() {
	h := c.hosts[c.rand.IntN(len(c.hosts))]
	if h.up {
		c.note("%s is cut off", h.name)
		h.up = false
		edit(c.world, nodeObject(h.name), func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionUnknown })
		return
	}
	c.note("%s is back", h.name)
	c.repair(h)
}

// repair makes a host part of the cluster again: it looks at the API before
// anything else.
func (c *chaos) repair(h *host) {
	h.up = true
	h.inputs.listAll()
	if _, exists := c.api.objects[keyOf(nodeObject(h.name))]; !exists {
		c.create(nodeObject(h.name))
	}
	edit(c.world, nodeObject(h.name), func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionTrue })
}

func (c *chaos) returnToService(h *host) {
	edit(c.world, nodeObject(h.name), func(node *corev1.Node) { node.Spec.Taints = nil })
}

// fenceNode switches a lost host off, and marks it so.
func (c *chaos) fenceNode() {
	for _, h := range c.hosts {
		if h.up {
			continue
		}
		c.note("%s is fenced", h.name)
		h.sandboxes = nil
		if c.rand.IntN(2) == 0 {
			if node, ok := c.api.objects[keyOf(nodeObject(h.name))]; ok {
				c.api.drop(node)
			}
			if answer, ok := c.api.objects[keyOf(&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(h.name)}})]; ok {
				c.api.drop(answer)
			}
		} else {
			edit(c.world, nodeObject(h.name), func(node *corev1.Node) {
				node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			})
		}
		for _, pod := range sorted[*corev1.Pod](c.api) {
			if pod.Spec.NodeName == h.name {
				c.api.drop(pod)
			}
		}
		return
	}
	for _, h := range c.hosts {
		c.returnToService(h)
	}
}

func (c *chaos) crashOperator() {
	if o, ok := pick(c, c.operators); ok {
		c.crash(o)
		c.operate()
	}
}

// secondOperator makes a second operator that believes that it leads, or takes it away.
func (c *chaos) secondOperator() {
	if len(c.operators) > 1 {
		c.crash(c.operators[c.rand.IntN(len(c.operators))])
		return
	}
	c.operate()
}

func (c *chaos) relist() {
	if o, ok := pick(c, c.operators); ok {
		o.inputs.all[c.rand.IntN(len(o.inputs.all))].list()
	}
}

func (c *chaos) repeat() {
	if o, ok := pick(c, c.operators); ok {
		o.inputs.all[c.rand.IntN(len(o.inputs.all))].repeat()
	}
}

func (c *chaos) takeBackup() { c.backup = c.api.snapshot() }

// restoreBackup brings an older state of the API back. Every program's term
// ends with the outage, and every watch breaks.
func (c *chaos) restoreBackup() {
	if c.backup == nil || c.depth > 0 {
		return
	}
	c.note("the API is restored from a backup")
	c.api.restore(c.backup)
	c.backup, c.toldBefore = nil, nil
	for len(c.operators) > 0 {
		c.crash(c.operators[0])
	}
	for _, h := range c.hosts {
		if node, ok := c.api.objects[keyOf(nodeObject(h.name))].(*corev1.Node); !ok {
			c.create(nodeObject(h.name)) // as a kubelet that starts does
		} else if ready := node.Status.Conditions[0].Status == corev1.ConditionTrue; ready != h.up {
			edit(c.world, node, func(node *corev1.Node) {
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
				if h.up {
					node.Status.Conditions[0].Status = corev1.ConditionTrue
				}
			})
		}
		if h.up {
			h.inputs.listAll()
		}
	}
	c.operate()
}
