// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// TestForgedAnnotation_NoAdmissionPolicy_NothingAttached: the API server of these tests has
// no admission policy, and the client here has all rights. A pod with a copy of the
// annotations that the operator wrote for another pod gets no interface.
func TestForgedAnnotation_NoAdmissionPolicy_NothingAttached(t *testing.T) {
	n := newAPINode(t, "api-forged")
	n.cfg.Wait = time.Second
	n.vpc(t, "forged", 48)
	n.vpc(t, "forged-own", 49)
	n.start(t)
	victim, thief := n.pod(t, "forged-victim", "forged", "10.10.1.10", nil), n.pod(t, "forged-thief", "forged-own", "10.10.1.11", nil)
	n.decide(t, victim)
	says := func(annotations map[string]string) {
		n.status(t, n.get(t, thief), func(obj client.Object) { annotate(obj, annotations) })
	}
	// The daemon reads a written object a moment later, and until then refuses for the reason
	// before.
	refused := func(what, want string) {
		t.Helper()
		eventually(t, "ADD "+what+" is refused: "+want, func() error {
			err := n.lab.cni(t, "ADD", thief)
			if err == nil || !strings.Contains(err.Error(), `"code": 11`) {
				t.Fatalf("ADD %s: %v; want code 11", what, err)
			}
			if !strings.Contains(err.Error(), want) {
				return err
			}
			return nil
		})
	}
	says(n.get(t, victim).Annotations)
	refused("with nothing of its own", "the pod's Address objects have not arrived yet")
	n.claimAddress(t, thief)
	refused("with another's annotation over its own", v1alpha1.AttachmentsAnnotation+" and the pod's Address objects disagree")
	reported := n.get(t, thief).Annotations
	reported[v1alpha1.AttachmentsAnnotation] = `[{"name":"eth0","kind":"veth","outside":"physical","addresses":["192.0.2.77/24"]}]`
	says(reported)
	refused("with a way out of every VPC", "its AttachmentClaim has not arrived")

	if err := n.lab.cni(t, "ADD", victim); err != nil {
		t.Errorf("ADD of the pod whose address it is: %v", err)
	}
}
