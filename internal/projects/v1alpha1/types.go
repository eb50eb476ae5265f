// Package v1alpha1 has the objects of projects in the API server: group ailab.io, version v1alpha1. controller-gen makes the
// definitions in the chart's crds folder and the deep copies from it (make generate).
//
// +kubebuilder:object:generate=true
// +groupName=ailab.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of every object here.
var GroupVersion = schema.GroupVersion{Group: "ailab.io", Version: "v1alpha1"}

// AddToScheme makes the objects known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Project{}, &ProjectList{}, &NodeGroup{}, &NodeGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Project is a team: who is in it, which nodes are its own, and how much its namespace may use. Its namespace bears its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.memberCount`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a project's name is a DNS label of at most 63 bytes: lower case letters, digits and '-', the first and last no '-'"
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ProjectSpec `json:"spec,omitempty"`
	// +optional
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectSpec is what the people who look after a project write.
type ProjectSpec struct {
	// Members are the people of the project.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Members []Member `json:"members,omitempty"`
	// Quota caps what the project's namespace may use; without one nothing is capped.
	// +optional
	Quota Quota `json:"quota,omitempty"`
	// Binding says which nodes are the project's.
	// +optional
	Binding Binding `json:"binding,omitempty"`
}

// Member is somebody in a project.
//
// +kubebuilder:validation:XValidation:rule="has(self.user) != has(self.subject)",message="a member has either user or subject"
type Member struct {
	// User is a login name; the RBAC user is PROJECT_USER_PREFIX with it behind.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user,omitempty"`
	// Subject is an RBAC user, as it is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Subject string `json:"subject,omitempty"`
	// Role is manager or member. Another gives no right and is told in the condition UnknownRoles.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
}

// Quota caps the use of a namespace.
type Quota struct {
	// Hard goes into the ResourceQuota as it is. Extended resources need "requests." before their name.
	// +optional
	Hard map[string]resource.Quantity `json:"hard,omitempty"`
}

// Binding says which nodes are a project's.
type Binding struct {
	// Nodes are names of nodes.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// NodeGroups are names of node groups.
	// +optional
	// +listType=atomic
	NodeGroups []string `json:"nodeGroups,omitempty"`
}

// ProjectStatus is what the controller has found and done.
type ProjectStatus struct {
	// ObservedGeneration is the generation that the rest of the status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes are the bound nodes that exist, by name.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// +optional
	NodeCount int64 `json:"nodeCount,omitempty"`
	// NodeGroups are the bound node groups that exist, by name.
	// +optional
	// +listType=atomic
	NodeGroups []string `json:"nodeGroups,omitempty"`
	// Members are the RBAC users with a right in the project, with their roles.
	// +optional
	// +listType=atomic
	Members []MemberStatus `json:"members,omitempty"`
	// +optional
	MemberCount int64 `json:"memberCount,omitempty"`
	// Quota is what the ResourceQuota says.
	// +optional
	Quota QuotaStatus `json:"quota,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberStatus is an RBAC user with a right in the project.
type MemberStatus struct {
	Subject string `json:"subject"`
	Role    string `json:"role"`
}

// QuotaStatus mirrors the ResourceQuota's status.
type QuotaStatus struct {
	// +optional
	Hard map[string]resource.Quantity `json:"hard,omitempty"`
	// +optional
	Used map[string]resource.Quantity `json:"used,omitempty"`
}

// ProjectList is a list of projects.
//
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}

// NodeGroup is a set of nodes under a name: those that it lists and those that its selector finds.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a node group's name is a DNS label of at most 63 bytes: lower case letters, digits and '-', the first and last no '-'"
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NodeGroupSpec `json:"spec,omitempty"`
	// +optional
	Status NodeGroupStatus `json:"status,omitempty"`
}

// NodeGroupSpec says which nodes are in a group.
type NodeGroupSpec struct {
	// Nodes are names of nodes.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// NodeSelector are labels that a node has to bear, all of them; an empty one selects nothing.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// NodeGroupStatus is what the controller has found.
type NodeGroupStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes are the nodes of the group that exist, by name.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// +optional
	NodeCount int64 `json:"nodeCount,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroupList is a list of node groups.
//
// +kubebuilder:object:root=true
type NodeGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeGroup `json:"items"`
}
