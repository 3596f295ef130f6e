// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// world is a cluster in one goroutine and virtual time: operators with their
// real controllers, hosts, and the API between them.
type world struct {
	t         testing.TB
	clock     time.Time
	api       *fakeAPI
	operators []*instance
	born      int
	// configure changes the configuration of operators; nil leaves it.
	configure func(*Config)
	hosts     []*host
	// intercept stands between a request and its effect; nil lets it pass.
	intercept func(who string, o *instance, verb string, object client.Object, effect func() error) error
	// pausesGrow: an operator repeats failed requests after the pauses of the real queues.
	pausesGrow bool
	// thief reports that an attacker writes with the token of a node. toldBefore has the
	// allocations of pods so far. Allocations of pods on other nodes must not change.
	thief      bool
	toldBefore map[types.UID]string
	// robbed has the pods that lost an address to the thief after a person had deleted the address.
	robbed map[types.UID]bool
	// forger reports that a tenant writes the status of its pods. forged are those pods:
	// their own sandboxes have no guarantees.
	forger bool
	forged map[types.UID]bool
	// steps are the last things that happened, for the report of a failure.
	steps []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: time.Unix(2_000_000_000, 0)}
	w.api = newFakeAPI(w.now)
	return w
}

func (w *world) now() time.Time { return w.clock }

func (w *world) note(format string, args ...any) {
	w.steps = append(w.steps, w.clock.Format("05.000 ")+fmt.Sprintf(format, args...))
	if len(w.steps) > 200 {
		w.steps = w.steps[1:]
	}
}

// fail reports a fault and the steps before it.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nthe last steps:\n%s", fmt.Sprintf(format, args...), strings.Join(w.steps, "\n"))
}

func (w *world) request(who string, o *instance, verb string, object client.Object, effect func() error) error {
	if o != nil && o.dead() {
		return errKilled
	}
	called := func() error {
		var before client.Object
		if o != nil && isWrite(verb) {
			before = w.api.objects[keyOf(object)]
		}
		err := effect()
		w.keepsSpecs(verb, before)
		w.note("  %s: %s %s %s: %v", who, verb, reflect.TypeOf(object).Elem().Name(), object.GetName(), err)
		return err
	}
	var err error
	if w.intercept == nil {
		err = called()
	} else {
		err = w.intercept(who, o, verb, object, called)
	}
	if o != nil && o.dead() {
		return errKilled
	}
	return err
}

// operate starts one more operator.
func (w *world) operate() *instance {
	w.t.Helper()
	w.born++
	cfg := testConfig()
	cfg.DefaultVPC = v1alpha1.DefaultVPCName
	if w.configure != nil {
		w.configure(&cfg)
	}
	name := fmt.Sprintf("operator-%d", w.born)
	o, err := newInstance(name, w.api, cfg, w.now, func(o *instance, verb string, object client.Object, effect func() error) error {
		return w.request(name, o, verb, object, effect)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	o.pausesGrow = w.pausesGrow
	w.operators = append(w.operators, o)
	return o
}

// crash ends an operator at any step.
func (w *world) crash(o *instance) {
	w.note("%s is killed", o.name)
	o.kill()
	w.operators = slices.DeleteFunc(w.operators, func(other *instance) bool { return other == o })
}

// boot makes a machine and its Node.
func (w *world) boot(name string) {
	w.create(nodeObject(name))
	h := newHost(name, w.api, func(verb string, object client.Object, effect func() error) error {
		return w.request(name, nil, verb, object, effect)
	})
	w.hosts = append(w.hosts, h)
}

func nodeObject(name string) *corev1.Node {
	node := newNode(name)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func (w *world) host(name string) *host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// create makes objects, with the fields that are set of their status.
func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		given := clone(object)
		if err := w.api.create(object); err != nil {
			w.t.Fatalf("create %s: %v", object.GetName(), err)
		}
		copyStatus(object, given)
		w.api.store(object)
	}
}

// edit changes an object as its owner would.
func edit[O client.Object](w *world, object O, change func(O)) {
	w.t.Helper()
	found, ok := w.api.objects[keyOf(object)]
	if !ok {
		return
	}
	next := clone(found).(O)
	change(next)
	w.api.keep(next, found)
}

// bound returns a pod of namespace shop on a node.
func bound(name, network, nic, node string) *corev1.Pod {
	pod := newPod("shop", name, network, nic)
	pod.Spec.NodeName = node
	return pod
}

// choices returns all that can happen by itself now.
func (w *world) choices() []work {
	var all []work
	for _, o := range w.operators {
		all = append(all, o.choices()...)
	}
	for _, h := range w.hosts {
		all = append(all, h.choices()...)
	}
	return all
}

func (w *world) do(one work) {
	w.note("%s", one.what)
	one.do()
}

// settle lets everything happen, in a fair order, until nothing does any more
// for longer than anybody waits.
func (w *world) settle() {
	w.t.Helper()
	quietSince, changes := w.clock, len(w.api.log)
	for round := 0; w.clock.Sub(quietSince) < 45*time.Second; round++ {
		if round > 20_000 {
			w.fail("the cluster does not come to rest")
		}
		w.turn()
		if len(w.api.log) != changes {
			quietSince, changes = w.clock, len(w.api.log)
		}
	}
}

// until lets everything happen until check returns nil, and returns how long that took.
func (w *world) until(what string, check func() error) time.Duration {
	w.t.Helper()
	began := w.clock
	for {
		err := check()
		if err == nil {
			return w.clock.Sub(began)
		}
		if w.clock.Sub(began) > 10*time.Minute {
			w.fail("waited in vain for %s: %v", what, err)
		}
		w.turn()
	}
}

// pass lets everything happen for a time.
func (w *world) pass(span time.Duration) {
	w.t.Helper()
	for began := w.clock; w.clock.Sub(began) < span; {
		w.turn()
	}
}

// turn lets every possible event happen. Without one, time passes.
func (w *world) turn() {
	w.t.Helper()
	all := w.choices()
	for _, one := range all {
		w.do(one)
	}
	if len(all) == 0 {
		w.clock = w.nextDue()
	}
	w.check()
}

// nextDue is when something is due, at most a second from now.
func (w *world) nextDue() time.Time {
	next := w.clock.Add(time.Second)
	for _, o := range w.operators {
		if due, ok := o.nextDue(); ok && due.After(w.clock) && due.Before(next) {
			next = due
		}
	}
	return next
}

// check checks the rules that must hold at every moment.
func (w *world) check() {
	w.t.Helper()
	seen := map[string]string{}
	for _, h := range w.hosts {
		for _, s := range h.sandboxes {
			if !h.up || h.lost(s) || w.mayBeOff(h, s) || w.forged[s.uid] {
				continue
			}
			for _, ip := range s.ips {
				key := fmt.Sprintf("VNI %d %s", s.vni, ip)
				if other := seen[key]; other != "" {
					w.fail("%s is used by %s and by %s", key, other, s.id)
				}
				seen[key] = s.id
			}
		}
	}
	if w.thief {
		w.keepsToItsOwn()
	}
	if w.forger {
		w.keepsOthersOut()
	}
	vnis := map[int32]string{}
	for _, vpc := range sorted[*v1alpha1.VPC](w.api) {
		if vni := vpc.Status.VNI; vni != 0 {
			if other := vnis[vni]; other != "" {
				w.fail("VPCs %s and %s both have VNI %d", other, vpc.Name, vni)
			}
			vnis[vni] = vpc.Name
		}
	}
}

// toldTo returns the attachment in a pod's status, nil for none.
func attachedTo(pod *corev1.Pod) *netif.Interface {
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) != 1 || pod.Annotations[arktosv1.ReadinessAnnotation] != "true" {
		return nil
	}
	return &list[0]
}

// errLost is the error of a client that does not know the fate of its request.
var errLost = errors.New("the connection broke")

// outcome is the fate of a request.
type outcome int

const (
	passes outcome = iota
	failsBefore
	conflictsBefore
	lostBefore
	lostAfter
	crashesBefore
	crashesAfter
	outcomes
)

func (o outcome) String() string {
	return [...]string{
		"passes", "fails", "conflicts", "is lost before its effect", "is lost after its effect",
		"is the last before a crash that keeps it from its effect", "is the last before a crash",
	}[o]
}

// meets lets a request meet its fate.
func (w *world) meets(fate outcome, o *instance, object client.Object, effect func() error) error {
	switch fate {
	case failsBefore:
		return apierrors.NewInternalError(errors.New("etcd is unwell"))
	case conflictsBefore:
		return conflict(object, "somebody was faster")
	case lostBefore:
		return errLost
	case lostAfter:
		_ = effect() // nobody will know
		return errLost
	case crashesAfter:
		_ = effect() // nobody will know
		fallthrough
	case crashesBefore:
		if o != nil {
			w.crash(o)
			w.operate()
		}
		return errLost
	case passes, outcomes:
	}
	return effect()
}

// ranges returns a subnet named <VPC>.<spec.name>.
func ranges(name string, cidrs ...string) *v1alpha1.Subnet {
	vpc, short, _ := strings.Cut(name, ".")
	return newSubnet(name, vpc, short, cidrs...)
}

// furnish makes the default VPC, two hosts, and two small VPCs of one tenant
// with overlapping ranges.
func (w *world) furnish(hosts int) {
	for i := range hosts {
		w.boot(fmt.Sprintf("node-%d", i+1))
	}
	w.create(newVPC(v1alpha1.DefaultVPCName, []string{"*"}, "10.244.0.0/16", "fd10:244::/48"),
		ranges(v1alpha1.DefaultVPCName+".pods", "10.244.0.0/24", "fd10:244::/64"),
		newNamespace("shop", "shop"))
	for _, name := range []string{"blue", "red"} {
		w.create(newVPC(name, []string{"shop"}, "10.0.0.0/16", "fd00::/48"),
			ranges(name+".net1", "10.0.1.0/28", "fd00:0:0:1::/64"), ranges(name+".net2", "10.0.2.0/29"),
			newNetwork("shop", name, name))
	}
}

// balance makes the objects that give load balancers their addresses.
func (w *world) balance() {
	w.create(virtual("blue"), virtual("red"), newPool("edge", []string{"shop"}, "192.0.2.16-192.0.2.17"))
}

// balancer returns a load balancer of namespace shop.
func balancer(name, network string, annotations map[string]string) *corev1.Service {
	service := newBalancer("shop", name, annotations)
	service.Labels[arktosv1.NetworkLabel] = network
	service.Spec.ClusterIPs = []string{"10.96.0.7"}
	return service
}

// virtual returns a small subnet of a VPC for load balancers.
func virtual(vpc string) *v1alpha1.Subnet {
	subnet := ranges(vpc+".lb", "10.0.3.0/29")
	subnet.Spec.Use = v1alpha1.SubnetForServices
	return subnet
}
