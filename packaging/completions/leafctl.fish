# leafctl completion for fish: leafctl itself knows the words (--complete)
function __leafctl
    set -l words (commandline -opc) (commandline -ct)
    set -l offered ($words[1] --complete $words[2..-1] 2>/dev/null)
    if test "$offered" = :file
        __fish_complete_path (commandline -ct)
    else
        string join \n -- $offered
    end
end
complete -c leafctl -f -a '(__leafctl)'
