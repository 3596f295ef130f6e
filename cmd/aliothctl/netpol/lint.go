// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
)

// errFindings reports that a policy has a finding. The findings are the output.
var errFindings = errors.New("network policies have findings")

// linting is the command line of lint.
type linting struct {
	source
	namespace string
}

func lintCommand() *cobra.Command {
	l := &linting{source: newSource()}
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Find parts of network policies that have no effect",
		Long: `Find parts of NetworkPolicies and ClusterNetworkPolicies that have no effect, or probably
another one than their author thinks: a selector that matches no pod, a peer whose pods
are in other VPCs alone, the name of a port that no destination has, and a range of
addresses inside the policy's own VPC. The command changes nothing.

In a cluster it needs the rights to list pods, NetworkPolicies and ClusterNetworkPolicies,
to read the namespaces, the Addresses of the pods' nodes and their VPCs. With -n it reads
the pods of one namespace, and reviews what depends on them alone. With --offline it
compares policies with the pods, templates, Networks and VPCs of the files.

Exit status: 0 without findings; 1 with some; 2 if the question can't be answered, or a
policy can't be read.`,
		Example: `  aliothctl netpol lint -n shop
  aliothctl netpol lint --offline -f manifests/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd) },
	}
	l.addFlags(cmd)
	cmd.Flags().StringVarP(&l.namespace, "namespace", "n", "", "namespace of the policies and their pods; default: all namespaces")
	cmd.MarkFlagsMutuallyExclusive("offline", "namespace")
	return cmd
}

func (l *linting) run(cmd *cobra.Command) error {
	objects, err := l.objects(cmd.InOrStdin(), func(o *judgement.Objects) error {
		return readCluster(o, l.kubeconfig, func(r *reader) error { return r.all(cmd.Context(), l.namespace) })
	})
	if err != nil {
		return err
	}
	var namespaces []string
	switch {
	case l.offline:
		namespaces = objects.NamespacesOfFiles()
	case l.namespace != "":
		namespaces = []string{l.namespace}
	}
	review := objects.Lint(namespaces)
	if err := l.print(cmd.OutOrStdout(), review, func() string { return reviewText(review) }); err != nil {
		return err
	}
	if review.Partial {
		return errPartial
	}
	if len(review.Findings) > 0 {
		cmd.SilenceErrors = true
		return errFindings
	}
	return nil
}

// reviewText words a review for people.
func reviewText(r *judgement.Review) string {
	var out strings.Builder
	for _, one := range r.Findings {
		fmt.Fprintf(&out, "%s: %s: %s: %s\n", one.Policy, one.Field, one.Reason, one.Text)
	}
	for _, one := range r.Problems {
		fmt.Fprintf(&out, "problem: %s: %s\n", one.Policy, one.Problem)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "note: %s\n", note)
	}
	fmt.Fprintf(&out, "policies: %d, findings: %d\n", r.Policies, len(r.Findings))
	return out.String()
}

// all reads the pods and policies of a namespace, "" for all, and what belongs to them.
func (r *reader) all(ctx context.Context, namespace string) error {
	var pods corev1.PodList
	if err := r.list(ctx, "pods", namespace, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := r.place(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	if err := r.networkPolicies(ctx, namespace); err != nil {
		return err
	}
	if err := r.ranges(ctx); err != nil || namespace != "" {
		return err
	}
	if err := r.shared(ctx); err != nil {
		return err
	}
	return r.clusterNetworkPolicies(ctx)
}

// ranges reads the VPCs of the pods.
func (r *reader) ranges(ctx context.Context) error {
	for _, name := range r.objects.VPCs() {
		var vpc v1alpha1.VPC
		found, err := r.get(ctx, "vpcs.alioth.dev", judgement.Name{Name: name}, &vpc)
		if err != nil {
			return err
		}
		if found {
			r.objects.AddVPC(&vpc)
		}
	}
	return nil
}

// shared reads the shared services, whose backends are peers in every VPC.
func (r *reader) shared(ctx context.Context) error {
	if err := r.sharedServices(ctx); err != nil {
		return err
	}
	for _, name := range r.objects.Shared {
		var service corev1.Service
		found, err := r.get(ctx, "services", name, &service)
		if err != nil {
			return err
		}
		if found {
			r.objects.Services[name] = &service
		}
	}
	return nil
}
