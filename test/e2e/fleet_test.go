// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// oddPort is where the pods listen that don't listen where the others do.
const oddPort = 7101

// Names of the servers' ports. Services lead to the ports by these names.
const (
	echoPort, datagramPort, webPort = "echo", "echo-udp", "http"
)

// fleet is a tenant with pods that labels put behind Services, and client pods on both
// nodes. Services are translated at the socket for most clients, and in packets for
// machines, whose sockets are in a namespace without hooks.
type fleet struct {
	*scene.Tenant
	e *env
	// backends are on the first node and on the second in turn, the third and the
	// fourth in the other subnet; the fourth listens at an odd port.
	backends []*corev1.Pod
	// leaver is a backend on the second node that ends only when it is let.
	leaver *corev1.Pod
	// near and far ask, from the first node and from the other, where they are in the
	// other subnet.
	near, far, nearMachine, farMachine *corev1.Pod
}

// named gives the server's ports their names.
func named(echo int32) scene.PodOption {
	return func(pod *corev1.Pod) {
		container := &pod.Spec.Containers[0]
		container.Command = append(container.Command, "--echo", fmt.Sprint(echo))
		container.Ports = []corev1.ContainerPort{
			{Name: echoPort, ContainerPort: echo},
			{Name: datagramPort, Protocol: corev1.ProtocolUDP, ContainerPort: echo},
			{Name: webPort, ContainerPort: report.PortHTTP},
		}
	}
}

// fleet makes the tenant and its pods. firstIP is the first backend's IP, machineIP the IP of the
// machine on the second node.
func (e *env) fleet(t *testing.T, name, firstIP, machineIP string) *fleet {
	t.Helper()
	first, second := e.Nodes()
	f := &fleet{Tenant: e.Tenant(t, stage.Overlapping(name)), e: e}
	net1, net2 := scene.WithNIC(`{"subnet": "net1"}`), scene.WithNIC(`{"subnet": "net2"}`)
	at := func(ip string) scene.PodOption { return scene.WithNIC(`{"ip": "` + ip + `"}`) }
	f.backends = []*corev1.Pod{
		f.Pod("one", scene.OnNode(first), at(firstIP), named(report.PortEcho)),
		f.Pod("two", scene.OnNode(second), net1, named(report.PortEcho)),
		f.Pod("three", scene.OnNode(first), net2, named(report.PortEcho)),
		f.Pod("four", scene.OnNode(second), net2, named(oddPort)),
		f.Pod("five", scene.OnNode(first), net1, named(report.PortEcho)),
	}
	f.leaver = f.Pod("leaver", scene.OnNode(second), net1, named(report.PortEcho), untilLet)
	f.near = f.Pod("near", scene.OnNode(first), net1, named(report.PortEcho), scene.WithReadiness(httpProbe("/healthz")))
	f.far = f.Pod("far", scene.OnNode(second), net2)
	f.nearMachine = f.Pod("near-machine", scene.OnNode(first), net1, named(report.PortEcho), scene.AsMachine())
	f.farMachine = f.Pod("far-machine", scene.OnNode(second), at(machineIP), scene.AsMachine())
	e.Run(t, append(f.serving(), f.far, f.farMachine)...)
	e.RemoveAfter(t, f.leaver) // which would take its time
	return f
}

// serving returns the pods that may be put behind Services.
func (f *fleet) serving() []*corev1.Pod {
	return append(slices.Clone(f.backends), f.leaver, f.near, f.nearMachine)
}

func (f *fleet) asking() []*corev1.Pod {
	return []*corev1.Pod{f.near, f.far, f.nearMachine, f.farMachine}
}

// service makes a Service that has no backend yet.
func (f *fleet) service(t *testing.T, name string, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	service := serviceOf(f.Namespace.Name, name, "")
	service.Spec.Selector = map[string]string{name: "yes"}
	for i, port := range []string{echoPort, datagramPort, webPort} {
		service.Spec.Ports[i].TargetPort = intstr.FromString(port)
	}
	for _, change := range changes {
		change(service)
	}
	f.e.Make(t, service)
	return service
}

// put has exactly these pods behind a Service.
func (f *fleet) put(t *testing.T, service *corev1.Service, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range f.serving() {
		value, wanted := "null", slices.Contains(pods, pod)
		if wanted {
			value = `"yes"`
		}
		text := fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, service.Name, value)
		same := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		err := f.e.Client.Patch(within(t, patience), same, client.RawPatch(types.MergePatchType, []byte(text)))
		if err != nil && (wanted || !apierrors.IsNotFound(err)) {
			t.Fatalf("put %s behind %s: %v", pod.Name, service.Name, err)
		}
	}
}

// at writes the targets of a protocol, one per address of the Service.
func at(service *corev1.Service, protocols ...string) []string {
	var targets []string
	for _, ip := range service.Spec.ClusterIPs {
		targets = append(targets, scene.Targets(protocols, netip.MustParseAddr(ip))...)
	}
	return targets
}

// each does something for all pods at once, and fails the test for the pods where it does not work.
func each(t *testing.T, pods []*corev1.Pod, do func(ctx context.Context, pod *corev1.Pod) error) {
	t.Helper()
	ctx := within(t, patience)
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range pods {
		all.Go(func() { errs[i] = do(ctx, pod) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", pods[i].Name, err)
		}
	}
}

// text returns the text that a pod of the fleet sends, so that its messages are known wherever they
// come in.
func (f *fleet) text(from *corev1.Pod) string { return f.Name + "-" + from.Name }

// hear asks each target so often, and returns the names that have answered, by target, or
// the error in parentheses.
func (f *fleet) hear(ctx context.Context, from *corev1.Pod, count int, targets ...string) (map[string][]string, error) {
	results, err := f.e.AskTimes(ctx, from, count, answerTime, f.text(from), targets...)
	if err != nil {
		return nil, err
	}
	heard := map[string]map[string]bool{}
	for _, r := range results {
		name := "(" + r.Error + ")"
		if r.OK {
			name = strings.TrimPrefix(r.Name, f.Namespace.Name+"/")
		}
		if heard[r.Target] == nil {
			heard[r.Target] = map[string]bool{}
		}
		heard[r.Target][name] = true
	}
	list := map[string][]string{}
	for target, names := range heard {
		list[target] = slices.Sorted(maps.Keys(names))
	}
	return list, nil
}

// failed reports whether a name stands for an attempt without an answer.
func failed(name string) bool { return strings.HasPrefix(name, "(") }

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// awaitAnswers waits until every target is answered by any pod.
func (f *fleet) awaitAnswers(t *testing.T, from []*corev1.Pod, targets ...string) {
	t.Helper()
	each(t, from, func(ctx context.Context, pod *corev1.Pod) error {
		return scene.Until(ctx, "answers", func(ctx context.Context) (bool, string, error) {
			heard, err := f.hear(ctx, pod, 1, targets...)
			done := allAre(heard, func(got []string) bool { return !failed(got[0]) })
			return err == nil && done && len(heard) == len(targets), fmt.Sprint(heard), err
		})
	})
}

// awaitHeard waits until at every target all of these pods answer a new flow, and no
// other pod.
func (f *fleet) awaitHeard(t *testing.T, from []*corev1.Pod, targets []string, want ...*corev1.Pod) {
	t.Helper()
	names := namesOf(want)
	each(t, from, func(ctx context.Context, pod *corev1.Pod) error {
		return scene.Until(ctx, fmt.Sprint("answers of ", names), func(ctx context.Context) (bool, string, error) {
			// A machine has a share of flows, so it asks for all only once one answers.
			heard, err := f.hear(ctx, pod, 1, targets...)
			if err == nil && len(want) > 1 && allAre(heard, func(got []string) bool { return slices.Contains(names, got[0]) }) {
				heard, err = f.hear(ctx, pod, 5*len(want), targets...)
			}
			done := allAre(heard, func(got []string) bool { return slices.Equal(got, names) })
			return err == nil && done && len(heard) == len(targets), fmt.Sprint(heard), err
		})
	})
}

// allAre reports whether the names heard at each target are as wanted.
func allAre(heard map[string][]string, wanted func([]string) bool) bool {
	for _, got := range heard {
		if !wanted(got) {
			return false
		}
	}
	return true
}

// expectHeard asks all targets and requires that each attempt is answered by one of
// these pods, which sees the asker itself.
func (f *fleet) expectHeard(t *testing.T, from []*corev1.Pod, targets []string, want ...*corev1.Pod) {
	t.Helper()
	const times = 3
	each(t, from, func(ctx context.Context, pod *corev1.Pod) error {
		results, err := f.e.AskTimes(ctx, pod, times, answerTime, f.text(pod), targets...)
		if err == nil && len(results) != times*len(targets) {
			err = fmt.Errorf("%d results for %d targets", len(results), len(targets))
		}
		for _, result := range results {
			name := result.Name
			if !slices.ContainsFunc(want, func(p *corev1.Pod) bool { return scene.ServerName(p.Namespace, p.Name) == name }) {
				name = fmt.Sprint("one of ", namesOf(want))
			}
			if problem := stage.CheckAnswer(result, name, scene.IPs(pod)); problem != "" {
				err = errors.Join(err, errors.New(problem))
			}
		}
		return err
	})
}

// awaitRefused waits until every target refuses, and requires that it does so then at
// once and each time.
func (f *fleet) awaitRefused(t *testing.T, from []*corev1.Pod, targets ...string) {
	t.Helper()
	refused := func(heard map[string][]string) bool {
		return len(heard) == len(targets) && allAre(heard, func(got []string) bool {
			return !slices.ContainsFunc(got, func(text string) bool { return !strings.Contains(text, "refused") })
		})
	}
	each(t, from, func(ctx context.Context, pod *corev1.Pod) error {
		err := scene.Until(ctx, "refusals", func(ctx context.Context) (bool, string, error) {
			heard, err := f.hear(ctx, pod, 1, targets...)
			return err == nil && refused(heard), fmt.Sprint(heard), err
		})
		if err != nil {
			return err
		}
		heard, err := f.hear(ctx, pod, 5, targets...)
		if err == nil && !refused(heard) {
			err = fmt.Errorf("%v, want refusals alone", heard)
		}
		return err
	})
}
