// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/soak"
)

const (
	// manyRounds and rounds are numbers of rounds. A round kills one operator at each moment, one
	// after the other.
	manyRounds, rounds = 10, 1
	// born and ended are how many pods come and go before each kill, which
	// takes an operator more writes than any of them lives to make.
	born, ended, mostWrites = 4, 2, 8
)

// churn is a tenant whose pods come and go.
type churn struct {
	*world
	rand   *rand.Rand
	node   *corev1.Node
	living []*corev1.Pod
	made   int
}

// TestOperator_KilledAtAnyMoment_NothingLost kills operators in the middle of their work. Moments
// are counted in requests, so that they are the same on a busy machine. ALIOTH_SEED repeats a
// run's.
func TestOperator_KilledAtAnyMoment_NothingLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ALIOTH_SEED=%d repeats this", seed)
	c := &churn{world: newWorld(t, "churn"), rand: rand.New(rand.NewPCG(seed, 0))}
	c.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "churn-node"}}
	c.create(c.node)
	for range soak.Or(t, manyRounds, rounds) {
		for _, writes := range c.rand.Perm(mostWrites + 1) {
			c.comeAndGo()
			c.killAfter(writes)
		}
	}
	last := startReplica(t, c.config, c.name)
	c.eventually(last.leads)
	for _, pod := range c.living {
		c.eventually(c.reported(pod, v1alpha1.AttachedReason))
	}
	c.eventually(c.asIntended)

	// Only a node's daemon can confirm that a pod's interface is gone; without the node
	// no address is kept.
	for len(c.living) > 0 {
		c.end()
	}
	if err := c.Delete(t.Context(), c.node); err != nil {
		t.Fatal(err)
	}
	c.eventually(c.asIntended)
}

// comeAndGo makes pods and deletes others.
func (c *churn) comeAndGo() {
	for range born {
		c.made++
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.name, Name: fmt.Sprint("pod-", c.made)},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(bool), NodeName: c.node.Name,
				Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
			},
		}
		c.create(pod)
		c.living = append(c.living, pod)
	}
	for range ended {
		c.end()
	}
}

// end deletes a pod as its kubelet does in the end.
func (c *churn) end() {
	c.t.Helper()
	i := c.rand.IntN(len(c.living))
	if err := c.Delete(c.t.Context(), c.living[i], client.GracePeriodSeconds(0)); err != nil {
		c.t.Fatal(err)
	}
	c.living = slices.Delete(c.living, i, i+1)
}

// killAfter starts an operator and kills it when it has asked the API for writes changes; with 0,
// when it has asked for anything at all.
func (c *churn) killAfter(writes int) {
	c.t.Helper()
	r := startReplica(c.t, c.config, c.name)
	c.eventually(func() error {
		requests := r.gateway.since(0)
		made := 0
		for _, request := range requests {
			if request.write() && !request.lease() {
				made++
			}
		}
		if made < writes || len(requests) == 0 {
			return errors.Join(fmt.Errorf("the operator has asked for %d changes, not %d yet", made, writes), r.alive())
		}
		return nil
	})
	r.signal(syscall.SIGKILL)
	<-r.ended
	// As if its time had run out: the next one need not wait for that.
	leases := kubernetes.NewForConfigOrDie(c.config).CoordinationV1().Leases(c.name)
	if err := leases.Delete(c.t.Context(), "alioth-operator", metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
}

// asIntended compares the state that operators have left with the intended one: each pod that lives
// has an address, the one in its annotations; any other pod has at most one as long as its node is
// there; the VPC has one VNI; and the status agrees.
func (c *churn) asIntended() error {
	held, err := c.held()
	if err != nil {
		return err
	}
	for _, pod := range c.living {
		if err := c.toldOf(pod, held[string(pod.UID)]); err != nil {
			return err
		}
	}
	if len(c.living) == 0 && len(held) > 0 {
		return fmt.Errorf("%d addresses are left without a pod or a node", len(held))
	}
	vpc, subnet, key := &v1alpha1.VPC{}, &v1alpha1.Subnet{}, client.ObjectKey{Name: c.name}
	ofVPC, ofSubnet := &v1alpha1.Usage{}, &v1alpha1.Usage{}
	err = errors.Join(c.Get(c.t.Context(), key, vpc), c.Get(c.t.Context(), key, subnet),
		c.Get(c.t.Context(), client.ObjectKey{Name: v1alpha1.UsageName(v1alpha1.UsageOfVPC, c.name)}, ofVPC),
		c.Get(c.t.Context(), client.ObjectKey{Name: v1alpha1.UsageName(v1alpha1.UsageOfSubnet, c.name)}, ofSubnet))
	if err != nil {
		return err
	}
	ready := meta.IsStatusConditionTrue(vpc.Status.Conditions, v1alpha1.ReadyCondition) &&
		meta.IsStatusConditionTrue(subnet.Status.Conditions, v1alpha1.ReadyCondition)
	counted := int(ofVPC.Status.Used) == len(held) && int(ofSubnet.Status.Used) == len(held) && subnet.Status.InUse == (len(held) > 0)
	if !ready || !counted {
		return fmt.Errorf("%d addresses are held; VPC: %+v, %+v, subnet: %+v, %+v", len(held), vpc.Status, ofVPC.Status, subnet.Status, ofSubnet.Status)
	}
	return c.oneVNI(vpc)
}

// held returns the addresses of the VPC by the UID of their holder.
func (c *churn) held() (map[string]string, error) {
	var addresses v1alpha1.AddressList
	if err := c.List(c.t.Context(), &addresses); err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, address := range addresses.Items {
		if address.Spec.VPC != c.name {
			continue
		}
		if other, twice := held[address.Spec.Holder.UID]; twice {
			return nil, fmt.Errorf("pod %s holds both %s and %s", address.Spec.Holder.Name, other, address.Spec.IP)
		}
		held[address.Spec.Holder.UID] = address.Spec.IP
	}
	return held, nil
}

// oneVNI checks that the VPC claims the VNI of its status, and no other.
func (c *churn) oneVNI(vpc *v1alpha1.VPC) error {
	var claims v1alpha1.VNIClaimList
	if err := c.List(c.t.Context(), &claims); err != nil {
		return err
	}
	mine := slices.DeleteFunc(claims.Items, func(claim v1alpha1.VNIClaim) bool { return claim.Spec.VPC != vpc.Name })
	if len(mine) != 1 || mine[0].Spec.VPCUID != string(vpc.UID) || mine[0].Spec.VNI != vpc.Status.VNI {
		return fmt.Errorf("the VPC says VNI %d, and claims %+v", vpc.Status.VNI, mine)
	}
	return nil
}

// toldOf checks that the status of a pod has the address that it holds, and no other.
func (c *churn) toldOf(pod *corev1.Pod, ip string) error {
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if len(list) != 1 || len(list[0].Addresses) != 1 || list[0].Addresses[0].Addr().String() != ip {
		return fmt.Errorf("pod %s was told %+v, and holds %q", pod.Name, list, ip)
	}
	return nil
}
