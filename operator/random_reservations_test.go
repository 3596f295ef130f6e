// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/soak"
)

const (
	// manyReservations and someReservations are numbers of episodes, with reservationSteps each.
	manyReservations, someReservations, reservationSteps = 400, 8, 400
	// limitOfReservations is the limit of PodNetwork pn, whose subnet has five addresses.
	limitOfReservations = 4
)

// reservationChaos is a world where people make and delete instances and pods, while requests get
// lost and operators end.
type reservationChaos struct {
	*world
	rand  *rand.Rand
	depth int
	calm  bool
	did   map[string]int
	// claims is held during the requests of a pod with several interfaces, whose addresses
	// are claimed at the same time.
	claims sync.Mutex
}

// TestReservations_RandomEvents_NoForeignHolder: ALIOTH_SEED repeats a run.
func TestReservations_RandomEvents_NoForeignHolder(t *testing.T) {
	seed, count := uint64(time.Now().UnixNano()), soak.Or(t, manyReservations, someReservations)
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed, count = given, 1
	}
	did := map[string]int{}
	for episode := range count {
		one := seed + uint64(episode)
		c := &reservationChaos{world: reserving(t), rand: rand.New(rand.NewPCG(one, 1)), calm: true, did: did}
		c.t, c.intercept = seeded{t, one}, c.disturb
		limit := c.api.objects[keyOf(podNetworkOf("pn", 0))].(*multitenancyv1alpha1.PodNetwork)
		*limit.Spec.MaxReservedIPs = limitOfReservations
		c.operate()
		c.settle()
		c.calm = false
		for range reservationSteps {
			c.step()
			c.checkReservations()
		}
		c.calm = true
		c.released()
		c.settle()
		c.checkReservations()
		c.checkWaiting()
	}
	t.Logf("ALIOTH_SEED=%d: %v", seed, did)
	for _, what := range []string{"instances", "pods", "crashes", "reservations", "held"} {
		if did[what] == 0 && count > 1 {
			t.Errorf("there were no %s", what)
		}
	}
}

func (c *reservationChaos) step() {
	c.clock = c.clock.Add(time.Duration(c.rand.IntN(40)) * time.Millisecond)
	if c.rand.IntN(10) > 0 {
		if one, ok := random(c.rand, c.choices()); ok {
			c.do(one)
		}
		return
	}
	actions := []func(){
		c.makeInstance, c.makeInstance, c.endInstance, c.makePod, c.makePod, c.makePod, c.makePod, c.endPod, c.endPod, c.released, c.released,
		c.crashOne, c.repeatOne, c.moveTenant,
	}
	actions[c.rand.IntN(len(actions))]()
}

func random[T any](from *rand.Rand, all []T) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[from.IntN(len(all))], true
}

// disturb lets others go on around a request, and now and then keeps it from its effect or
// its answer. A live read of an Address has no node yet.
func (c *reservationChaos) disturb(_ string, o *instance, verb string, object client.Object, effect func() error) error {
	address, isAddress := object.(*v1alpha1.Address)
	several := isAddress && verb != "delete" && address.Spec.Node != "node-2"
	if several {
		c.claims.Lock()
		defer c.claims.Unlock()
	}
	if c.calm {
		return effect()
	}
	meanwhile := func() {
		if several || c.depth >= nested {
			return
		}
		c.depth++
		defer func() { c.depth-- }()
		for range c.rand.IntN(3) {
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
	meanwhile()
	return err
}

func (c *reservationChaos) makeInstance() {
	name, size := fmt.Sprintf("pni-%d", c.rand.IntN(3)), int32(c.rand.IntN(4))
	var object client.Object = instanceOf(name, size)
	if c.rand.IntN(2) == 0 {
		early := acnv1alpha1.PodNetworkInstance(*instanceOf(name, size))
		object = &early
	}
	if _, exists := c.api.objects[keyOf(object)]; !exists {
		c.note("instance %s of %T is made, size %d", name, object, size)
		c.did["instances"]++
		c.create(object)
	}
}

func (c *reservationChaos) endInstance() {
	if one, ok := random(c.rand, c.instances()); ok && one.object.GetDeletionTimestamp() == nil {
		c.note("instance %s of %T is deleted", one.object.GetName(), one.object)
		if len(one.object.GetFinalizers()) == 0 {
			c.api.drop(one.object)
			return
		}
		c.api.markDeleting(one.object)
	}
}

func (c *reservationChaos) makePod() {
	name := fmt.Sprintf("web-%d", c.rand.IntN(podNames))
	pod := foreign(name)
	if c.rand.IntN(3) > 0 {
		pod = ofInstance(name, fmt.Sprintf("pni-%d", c.rand.IntN(3)))
	}
	if c.rand.IntN(6) == 0 {
		pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkLabel: "pn"}
		pod.Spec.NodeName, pod.Annotations = "node-1", nil
	}
	if _, exists := c.api.objects[keyOf(pod)]; !exists {
		c.note("pod %s is made on %s with %v", name, pod.Spec.NodeName, pod.Labels)
		c.did["pods"]++
		c.create(pod)
	}
}

func (c *reservationChaos) endPod() {
	if pod, ok := random(c.rand, sorted[*corev1.Pod](c.api)); ok {
		c.note("pod %s is gone", pod.Name)
		c.api.drop(pod)
	}
}

func (c *reservationChaos) crashOne() {
	c.did["crashes"]++
	c.crash(c.operators[0])
	c.operate()
}

// repeatOne has an operator hear everything of a kind again, as informers do at times.
func (c *reservationChaos) repeatOne() {
	one, _ := random(c.rand, c.operators[0].inputs.all)
	one.repeat()
}

// moveTenant gives the namespace to a tenant that the VPC does not allow, or back.
func (c *reservationChaos) moveTenant() {
	if c.rand.IntN(3) > 0 {
		return
	}
	edit(c.world, newNamespace("shop", ""), func(ns *corev1.Namespace) {
		tenant := ns.Labels[v1alpha1.TenantLabel]
		c.note("namespace shop leaves tenant %s", tenant)
		ns.Labels = map[string]string{v1alpha1.TenantLabel: map[string]string{"shop": "bank", "bank": "shop"}[tenant]}
	})
}

// anyInstance is an instance of any group.
type anyInstance struct {
	object client.Object
	spec   multitenancyv1alpha1.PodNetworkInstanceSpec
	status multitenancyv1alpha1.PodNetworkInstanceStatus
}

func (w *world) instances() []anyInstance {
	var all []anyInstance
	for _, one := range sorted[*multitenancyv1alpha1.PodNetworkInstance](w.api) {
		all = append(all, anyInstance{one, one.Spec, one.Status})
	}
	for _, one := range sorted[*acnv1alpha1.PodNetworkInstance](w.api) {
		all = append(all, anyInstance{one, one.Spec, one.Status})
	}
	return all
}

// checkReservations checks the rules that hold at every moment.
func (c *reservationChaos) checkReservations() {
	c.t.Helper()
	reserved, sizes := map[string]string{}, map[string]int32{}
	pods := map[string]*corev1.Pod{}
	for _, pod := range sorted[*corev1.Pod](c.api) {
		pods[string(pod.UID)] = pod
	}
	for _, one := range c.instances() {
		if size, known := sizes[one.object.GetName()]; !known || size > 0 {
			sizes[one.object.GetName()] = one.spec.PodNetworkConfigs[0].PodIPReservationSize
		}
		for _, ip := range one.status.PodIPAddresses {
			if other := reserved[ip]; other != "" {
				c.fail("%s is reserved for %s and for %s", ip, other, one.object.GetName())
			}
			reserved[ip] = one.object.GetName()
		}
		if has := len(one.status.PodIPAddresses); one.status.Status == multitenancyv1alpha1.InstanceReady &&
			has < int(one.spec.PodNetworkConfigs[0].PodIPReservationSize) {
			c.fail("%s is Ready with %d addresses", one.object.GetName(), has)
		}
	}
	c.did["reservations"] += len(reserved)
	if len(reserved) > limitOfReservations {
		c.fail("%v are reserved, more than %d", reserved, limitOfReservations)
	}
	for _, address := range sorted[*v1alpha1.Address](c.api) {
		owner, pod := reserved[address.Spec.IP], pods[address.Spec.Holder.UID]
		if address.Spec.VPC != "blue" || pod == nil {
			continue // of a pod that is gone nothing is known
		}
		label, named := pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
		if size, known := sizes[label]; named && owner == "" && (!known || size > 0) {
			c.fail("%s is not reserved, and pod %s of %q holds it", address.Spec.IP, pod.Name, label)
		}
		if owner == "" {
			continue
		}
		c.did["held"]++
		if label != owner {
			c.fail("%s is reserved for %s, and pod %s of %q holds it", address.Spec.IP, owner, pod.Name, label)
		}
	}
}

// checkWaiting requires at rest that every waiting instance or pod shows a reason, and that no
// object outlives its owner.
func (c *reservationChaos) checkWaiting() {
	c.t.Helper()
	for _, one := range c.instances() {
		if one.object.GetDeletionTimestamp() == nil {
			if one.status.Status == "" {
				c.fail("instance %s of %T is stuck: %+v", one.object.GetName(), one.object, one.status)
			}
			continue
		}
		if !slices.ContainsFunc(sorted[*corev1.Pod](c.api), func(pod *corev1.Pod) bool {
			return pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel] == one.object.GetName()
		}) {
			c.fail("instance %s of %T stays, though it has no pods: %+v", one.object.GetName(), one.object, one.status)
		}
	}
	for _, pod := range sorted[*corev1.Pod](c.api) {
		if readiness(pod) == nil {
			c.fail("pod %s does not know what it waits for", pod.Name)
		}
	}
	configs := sorted[*multitenancyv1alpha1.MultitenantPodNetworkConfig](c.api)
	for _, config := range configs {
		pod := c.pod(config.Name)
		if pod == nil || config.Spec.PodUID != string(pod.UID) {
			c.fail("config %s is that of a pod that is gone", config.Name)
		}
		if ready := config.Status.Status == multitenancyv1alpha1.ConfigReady; ready != (len(c.addresses(pod)) > 0) {
			c.fail("config %s is %s, and its pod holds %v", config.Name, config.Status.Status, c.addresses(pod))
		}
	}
}
