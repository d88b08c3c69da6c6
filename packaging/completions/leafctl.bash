# leafctl completion for bash: leafctl itself knows the words (--complete)
_leafctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} offered
    offered=$("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
    if [ "$offered" = :file ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$cur")
    fi
}
complete -F _leafctl leafctl
