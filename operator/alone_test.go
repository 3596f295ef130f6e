// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// The names of two tenants. All names of their objects contain the name of the tenant.
const (
	stuck   = "stuck"
	healthy = "healthy"
)

// TestOperator_ObjectUnwritable_OtherTenantNotDelayed lives the lives of two tenants. The API server
// refuses every write of the operator about one kind of the first tenant's objects, from the
// beginning or once these objects are ready. The second tenant's objects must be ready, and gone, as soon as without that. Errors are repeated after
// the pauses of the real queues, which have grown to their longest in between.
func TestOperator_ObjectUnwritable_OtherTenantNotDelayed(t *testing.T) {
	usual := liveWith(t, "", false)
	for _, kind := range []string{
		"Address", "DanmNet", "ExternalAddress", "ExternalPool", "HostAccess", "MultiTenantPodNetworkConfig", "MultitenantPodNetworkConfig",
		"Network", "Pod", "PodNetwork", "PodNetworkInstance", "ScaledEndpoint", "Service", "Subnet", "Usage", "VNIClaim", "VPC",
	} {
		if !usual.kinds[kind] {
			t.Errorf("the operator writes no %s about the first tenant: the scenario lives too little", kind)
		}
	}
	for i, kind := range slices.Repeat(slices.Sorted(maps.Keys(usual.kinds)), 2) {
		later := i >= len(usual.kinds)
		t.Run(fmt.Sprintf("%s, later %v", kind, later), func(t *testing.T) {
			t.Parallel()
			now := liveWith(t, kind, later)
			for i, took := range now.took {
				if took > usual.took[i]+time.Second {
					t.Errorf("step %d of the healthy tenant takes %s, and %s without a refused %s of another tenant", i+1, took, usual.took[i], kind)
				}
			}
			if now.refused == 0 && !later {
				t.Error("no write was refused")
			}
		})
	}
}

// lived is how the lives of two tenants went.
type lived struct {
	// kinds are the kinds of the objects that the operator has written about the first tenant.
	kinds map[string]bool
	// refused counts the writes that were refused.
	refused int
	// took has how long the second tenant's objects took to be ready, and to be gone.
	took []time.Duration
}

// liveWith lives the lives of two tenants. Writes of the operator about the first tenant's
// objects of one kind are refused, or those later than its objects are ready; "" for none.
func liveWith(t *testing.T, refusedKind string, later bool) lived {
	t.Helper()
	w, l, begun := newWorld(t), lived{kinds: map[string]bool{}}, !later
	w.pausesGrow = true
	w.configure = func(cfg *Config) {
		cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet, cfg.ScaledEndpoints = true, v1alpha1.DefaultVPCName+".pods", true
	}
	var claims sync.Mutex // the addresses of several interfaces are claimed at the same time
	w.intercept = func(_ string, o *instance, verb string, object client.Object, effect func() error) error {
		claims.Lock()
		defer claims.Unlock()
		_, shared := object.(*v1alpha1.AdmissionGrants)
		if o == nil || shared || !isWrite(verb) || !w.isAboutAlone(object, stuck, healthy) {
			return effect()
		}
		kind := reflect.TypeOf(object).Elem().Name()
		l.kinds[kind] = true
		if kind != refusedKind || !begun {
			return effect()
		}
		l.refused++
		return apierrors.NewForbidden(group(object), object.GetName(), errors.New("nobody may write it"))
	}
	w.operate()
	w.furnish(2)
	w.bootIPAM("node-3")
	first, second, other := tenantOf(stuck, 1), tenantOf(healthy, 2), newVPC("other", nil, "10.0.0.0/16")
	w.create(first...)
	w.create(second...)
	w.create(other)
	l.took = append(l.took, w.until("the healthy tenant to be ready", func() error { return w.readyOf(second) }))
	if later {
		w.until("the other tenant to be ready", func() error { return w.readyOf(first) })
	}
	begun = true
	w.pass(2 * time.Minute)
	w.remove(first)
	w.pass(2 * time.Minute)
	// Then the healthy tenant's VNI waits for the next roll call.
	w.remove([]client.Object{other})
	w.pass(6 * time.Second)
	w.remove(second)
	l.took = append(l.took, w.until("the healthy tenant to be gone", func() error { return w.goneOf(healthy) }))
	return l
}

// bootIPAM makes a machine whose pods get addresses by the node IPAM API, with many devices.
func (w *world) bootIPAM(name string) {
	w.t.Helper()
	w.boot(name)
	edit(w, newNode(name), func(node *corev1.Node) { node.Labels = map[string]string{multitenancyv1alpha1.NodeLabel: "true"} })
	w.create(withDevices(name))
}

// tenantOf has an object of each kind that a tenant, or an administrator for it, creates.
func tenantOf(name string, number int) []client.Object {
	inside, outside := newBalancer(name, name+"-inside", nil), newBalancer(name, name+"-outside", externally())
	for i, service := range []*corev1.Service{inside, outside} {
		service.Labels[arktosv1.NetworkLabel] = name
		service.Spec.ClusterIPs = []string{fmt.Sprintf("10.96.%d.%d", i, number)}
	}
	virtual := ranges(name+".lb", "10.0.3.0/29")
	virtual.Spec.Use = v1alpha1.SubnetForServices
	pod := newPod(name, name+"-pod", name, "")
	pod.Spec.NodeName = "node-1"
	return append([]client.Object{
		newNamespace(name, name), newVPC(name, []string{name}, "10.0.0.0/16"), ranges(name+".net1", "10.0.1.0/28"), virtual,
		newNetwork(name, name, name), pod, inside, outside,
		newPool(name, []string{name}, fmt.Sprintf("192.0.2.%d", 16*number)+"/28"),
		newHostAccess(name, v1alpha1.HostAccessSpec{AllowedTenants: []string{name}, HostPorts: []string{"8080"}}),
		&danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: danmv1.NetworkSpec{
			NetworkType: "macvlan", NetworkID: name, Options: danmv1.NetworkOptions{HostDevice: "dev-" + name, CIDR: fmt.Sprintf("192.168.%d.0/24", number)},
		}},
	}, reservedOf(name)...)
}

// reservedOf returns the objects of a tenant that reserves addresses by the node IPAM API, and a
// pod there.
func reservedOf(name string) []client.Object {
	network, instance := podNetworkOf(name, 4), instanceOf(name, 2)
	network.Spec.NetworkID = name
	instance.Namespace, instance.Spec.PodNetworkConfigs[0].PodNetwork = name, name
	pod := newPod(name, name+"-reserved", "", "")
	pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: name}
	pod.Spec.NodeName = "node-3"
	return []client.Object{ranges(name+".net2", "10.0.2.0/28"), network, instance, pod}
}

// isAboutAlone reports whether an object, as it is written or as the API has it, contains one
// name and not the other.
func (w *world) isAboutAlone(object client.Object, name, other string) bool {
	text := textOf(w.t, object)
	if there, ok := w.api.objects[keyOf(object)]; ok {
		text += textOf(w.t, there)
	}
	return strings.Contains(text, name) && !strings.Contains(text, other)
}

func textOf(t testing.TB, object client.Object) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readyOf returns an error about the first of a tenant's objects that lacks its result from the
// operator.
func (w *world) readyOf(objects []client.Object) error {
	for _, object := range objects {
		err := isServed(w.api.objects[keyOf(object)])
		if err == nil {
			err = w.isReported(object)
		}
		if err != nil {
			return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// isReported returns the name of a missing object that the operator makes of another one for others
// to read.
func (w *world) isReported(object client.Object) error {
	switch o := object.(type) {
	case *corev1.Service:
		if !slices.ContainsFunc(sorted[*v1alpha1.ScaledEndpoint](w.api), func(s *v1alpha1.ScaledEndpoint) bool {
			return s.Spec.Service.Namespace == o.Namespace && s.Spec.Service.Name == o.Name
		}) {
			return errors.New("it has no ScaledEndpoint")
		}
	case *corev1.Pod:
		if o.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel] == "" {
			return nil
		}
		config := &multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
		found, ok := w.api.objects[keyOf(config)].(*multitenancyv1alpha1.MultitenantPodNetworkConfig)
		if !ok || found.Status.Status != multitenancyv1alpha1.ConfigReady {
			return fmt.Errorf("its config is %v", found)
		}
	}
	return nil
}

func isServed(object client.Object) error {
	switch o := object.(type) {
	case *corev1.Pod:
		return hasReason(v1alpha1.AttachedReason)(o)
	case *corev1.Service:
		if len(o.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("it shows no address")
		}
		return nil
	case *corev1.Namespace:
		return nil
	}
	return ready(conditionsOf(object), v1alpha1.ReadyReason)
}

// conditionsOf returns the conditions in the status of an object.
func conditionsOf(object client.Object) []metav1.Condition {
	status := reflect.ValueOf(object).Elem().FieldByName("Status")
	conditions, _ := status.FieldByName("Conditions").Interface().([]metav1.Condition)
	return conditions
}

// remove deletes objects, the last one first, as far as their finalizers allow.
func (w *world) remove(objects []client.Object) {
	w.t.Helper()
	for _, object := range slices.Backward(objects) {
		there := w.api.objects[keyOf(object)]
		if _, isPod := there.(*corev1.Pod); isPod {
			w.api.markDeleting(there)
		} else if err := w.api.delete(there, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// goneOf returns an object that is left of a tenant. It ignores objects that the garbage collector
// of Kubernetes deletes.
func (w *world) goneOf(name string) error {
	for key, object := range w.api.objects {
		if len(object.GetOwnerReferences()) == 0 && strings.Contains(textOf(w.t, object), `"`+name) {
			return fmt.Errorf("%s is left", key)
		}
	}
	return nil
}
