// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/alioth-net/alioth/test/api/refusal"
)

func TestMayPass_EachRefusal_Classified(t *testing.T) {
	t.Parallel()
	subnets := schema.GroupResource{Group: "alioth.dev", Resource: "subnets"}
	invalid := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: message}}
	}
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"rights", apierrors.NewForbidden(subnets, "one", errors.New("no")), true},
		{"a policy without its parameters' kind", invalid(`subnets.alioth.dev "rights" is forbidden: ValidatingAdmissionPolicy 'alioth-subnet-apart' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'alioth.dev/v1alpha1, Kind=Subnet'`), true},
		{"a schema", invalid(`Subnet.alioth.dev "one" is invalid: spec.cidrs: Required value`), false},
		{"another failure", apierrors.NewInternalError(errors.New("no")), false},
	} {
		if got := refusal.MayPass(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}
